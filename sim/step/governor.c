#include "sim/step/governor.h"
#include <math.h>

#define DENSE_MATRIX_SHARE 0.84 /* mean use of the matrix units in sustained dense work at clock.core_dense */
#define CLOCK_EXPONENT 1.5
#define HBM_BUDGET 0.5 /* of the power above idle, at a saturated HBM */

double governor_core_mhz(const struct chip_profile *chip, double matrix_share, double hbm_share)
{
    double duty = matrix_share / DENSE_MATRIX_SHARE;
    double left = 1 - HBM_BUDGET * fmin(fmax(hbm_share, 0), 1);
    if (duty <= 0) {
        return chip->clock_core_max;
    }
    double mhz = chip->clock_core_dense * pow(left / duty, 1 / CLOCK_EXPONENT);
    return fmin(fmax(mhz, chip->clock_core_dense), chip->clock_core_max);
}
