#include "sim/core/worker_process.h"
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

void worker_process_ends_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { /* it was over before the line above */
        _exit(3);
    }
}
