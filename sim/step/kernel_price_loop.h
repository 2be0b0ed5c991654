#ifndef SIM_STEP_KERNEL_PRICE_LOOP_H
#define SIM_STEP_KERNEL_PRICE_LOOP_H

/* How a measuring program repeats a kernel, as far as board power sees it. All zero: a lone call, for which no window is
 * long enough. */
struct kernel_price_loop {
    double calls;         /* in a row; 0: a lone call */
    double between_us;    /* of other work between calls, at idle power */
    double pause_us;      /* after the last of them */
    double spin_mhz;      /* pauses of power/gemm_duty are spun: cycles counted for this clock run at the highest; 0: exact */
    double step_mhz;      /* the clock that the power of the kernels around it leaves, where its own would be higher; 0: its own */
    double copy_pause_us; /* pauses of power/gemm_duty are filled with whole copies taken to last this long; 0: their own */
};

#endif
