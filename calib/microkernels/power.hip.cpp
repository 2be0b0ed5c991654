/* Clock and board power under matrix and copy work at several duty cycles, each held for a second and a half. The clock is
 * that of the units themselves: their cycle counter against the time of the kernel. */
#include "calib/microkernels/matrix.h"
#include <chrono>
#include <dlfcn.h>
#include <glob.h>

/* Watts of the board now, 0 when the system does not tell. */
struct power_meter {
    unsigned (*read)(void *, unsigned *) = nullptr; /* NVML, milliwatts */
    void *device = nullptr;
    std::string file; /* hwmon, microwatts */
};

static struct power_meter open_meter(void)
{
    struct power_meter meter;
    glob_t found = {};
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library != nullptr) {
        auto init = (unsigned (*)(void))dlsym(library, "nvmlInit_v2");
        auto handle = (unsigned (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
        auto read = (unsigned (*)(void *, unsigned *))dlsym(library, "nvmlDeviceGetPowerUsage");
        if (init != nullptr && handle != nullptr && read != nullptr && init() == 0 && handle(0, &meter.device) == 0) {
            meter.read = read;
        }
    } else if (glob("/sys/class/drm/card*/device/hwmon/hwmon*/power1_average", 0, nullptr, &found) == 0 ||
               glob("/sys/class/drm/card*/device/hwmon/hwmon*/power1_input", 0, nullptr, &found) == 0) {
        meter.file = found.gl_pathv[0];
    }
    globfree(&found);
    return meter;
}

static double watts_now(const struct power_meter &meter)
{
    unsigned milliwatts = 0;
    if (meter.read != nullptr && meter.read(meter.device, &milliwatts) == 0) {
        return milliwatts * 1e-3;
    }
    double microwatts = 0;
    FILE *file = meter.file.empty() ? nullptr : fopen(meter.file.c_str(), "r");
    if (file != nullptr) {
        if (fscanf(file, "%lf", &microwatts) != 1) {
            microwatts = 0;
        }
        fclose(file);
    }
    return microwatts * 1e-6;
}

__global__ void stream_copy(const uint4 *p, uint4 *q, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        q[i] = p[i];
    }
}

static double seconds_now(void)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct load {
    device_array<float> out;
    device_array<long long> cycles;
    device_array<uint4> buffer;
    load() : out((size_t)micro.units), cycles((size_t)micro.units), buffer((1ull << 30) / 16) { buffer.zero(); }
};

/* Work of about `ms` on the device; returns its time [us]. */
static double burst(struct load &load, bool matrix, int trips, hipEvent_t start, hipEvent_t stop)
{
    float ms = 0;
    CHECK_HIP(hipEventRecord(start, 0));
    if (matrix) {
        matrix_kernel<MATRIX_BF16><<<micro.units, micro.lanes * MATRIX_WAVES>>>(trips, load.out.at, load.cycles.at);
    } else {
        for (int k = 0; k < trips; k++) {
            stream_copy<<<micro.units * 8, 256>>>(load.buffer.at, load.buffer.at + load.buffer.count / 2, load.buffer.count / 2);
        }
    }
    CHECK_HIP(hipEventRecord(stop, 0));
    CHECK_HIP(hipEventSynchronize(stop));
    CHECK_HIP(hipEventElapsedTime(&ms, start, stop));
    return ms * 1e3;
}

static void duty_row(struct load &load, const struct power_meter &meter, bool matrix, double duty, double burst_ms)
{
    hipEvent_t start, stop;
    CHECK_HIP(hipEventCreate(&start));
    CHECK_HIP(hipEventCreate(&stop));
    int trips = 64;
    for (int k = 0; k < 12; k++) { /* how much work takes the time of a burst */
        double us = burst(load, matrix, trips, start, stop);
        trips = (int)std::max(1., trips * std::min(8., std::max(0.125, burst_ms * 1e3 / us)));
    }
    double begin = seconds_now(), busy_us = 0, watts = 0, mhz = 0, work = 0;
    int samples = 0, bursts = 0;
    while (seconds_now() - begin < 1.5) {
        double us = burst(load, matrix, trips, start, stop);
        double idle_us = us * (1 / duty - 1);
        if (seconds_now() - begin > 0.5) { /* the governor has settled by then */
            busy_us += us;
            work += trips;
            bursts++;
            mhz += matrix ? (double)load.cycles.get()[0] / us : 0;
            watts += watts_now(meter);
            samples++;
        }
        if (idle_us > 0) {
            usleep((useconds_t)idle_us);
        }
    }
    double rate = matrix ? matrix_flops(MATRIX_BF16) * MATRIX_WAVE_ACCUMULATORS * MATRIX_WAVES * micro.units * work / busy_us * 1e-6
                         : work * (double)(1ull << 30) / busy_us * 1e-6;
    bool right = matrix ? load.out.get()[0] > 0 : true;
    row("power", matrix ? "matrix_duty" : "copy_duty", text("duty=%g;burst_ms=%g", duty, burst_ms),
        { busy_us / bursts, 0, 0, bursts }, rate, matrix ? "TFLOP/s" : "TB/s", right,
        text("watts=%.1f;core_mhz=%.0f", samples > 0 ? watts / samples : 0, bursts > 0 ? mhz / bursts : 0));
    CHECK_HIP(hipEventDestroy(start));
    CHECK_HIP(hipEventDestroy(stop));
}

int main(int argc, char **argv)
{
    micro_begin(argc, argv);
    struct power_meter meter = open_meter();
    struct load load;
    double idle = 0;
    CHECK_HIP(hipDeviceSynchronize());
    usleep(1000000);
    for (int k = 0; k < 50; k++) {
        idle += watts_now(meter);
        usleep(10000);
    }
    row_value("power", "idle", "seconds=0.5", idle / 50, "W", true);
    for (double duty : { 0.25, 0.5, 0.75, 1.0 }) {
        duty_row(load, meter, true, duty, 5);
    }
    for (double duty : { 0.5, 1.0 }) {
        duty_row(load, meter, false, duty, 5);
    }
    for (double burst_ms : { 0.5, 50. }) {
        duty_row(load, meter, true, 0.5, burst_ms);
    }
    return micro_end();
}
