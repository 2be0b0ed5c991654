#include "sim/cli/atomic_range.h"
#include "sim/step/session.h"
#include <math.h>
#include <string.h>

bool atomic_range_unpublished(const struct chip_profile *chip, enum chip_number index)
{
    const struct profile_value_meta *meta = &chip->meta[index];
    return strncmp(chip_number_key(index), "atomic.", 7) == 0 &&
           (meta->kind == PROFILE_ASSUMED || meta->kind == PROFILE_DERIVED) && meta->low < meta->high;
}

enum sim_status atomic_range_price(struct reckon *reckon, struct reckon_device *device,
                                   const struct reckon_kernel_request *request,
                                   const enum chip_number *indices, size_t count, bool high, double *us,
                                   struct sim_error *error)
{
    struct chip_profile *chip = reckon_device_chip_edit(device);
    double kept[CHIP_NUMBERS];
    enum chip_number ignored;
    struct reckon_kernel *kernel = NULL;
    for (size_t i = 0; i < count; i++) {
        double *number = chip_profile_number(chip, chip_number_key(indices[i]), &ignored);
        kept[i] = *number;
        *number = high ? chip->meta[indices[i]].high : chip->meta[indices[i]].low;
    }
    chip_profile_rehash(chip);
    enum sim_status status = reckon_kernel(reckon, device, request, &kernel, error);
    for (size_t i = 0; i < count; i++) {
        *chip_profile_number(chip, chip_number_key(indices[i]), &ignored) = kept[i];
    }
    chip_profile_rehash(chip);
    if (status == SIM_OK) {
        *us = kernel->time_us;
    }
    reckon_kernel_free(kernel);
    return status;
}

enum sim_status atomic_range_note(struct reckon *reckon, struct reckon_device *device,
                                  const struct reckon_kernel_request *request, struct reckon_kernel *kernel,
                                  struct sim_error *error)
{
    const struct chip_profile *chip = reckon_device_chip(device);
    enum chip_number indices[CHIP_NUMBERS];
    size_t count = 0;
    double low = 0, high = 0;
    for (int i = 0; i < CHIP_NUMBERS; i++) {
        if (atomic_range_unpublished(chip, (enum chip_number)i)) {
            indices[count++] = (enum chip_number)i;
        }
    }
    if (count == 0 || kernel->result.stack[KERNEL_STAGE_ATOMIC] < ATOMIC_RANGE_LEANS) {
        return SIM_OK;
    }
    enum sim_status status = atomic_range_price(reckon, device, request, indices, count, false, &low, error);
    if (status == SIM_OK) {
        status = atomic_range_price(reckon, device, request, indices, count, true, &high, error);
    }
    if (status == SIM_OK && fmax(fabs(low / kernel->time_us - 1), fabs(high / kernel->time_us - 1)) > ATOMIC_RANGE_MOVES) {
        notes_add(&kernel->notes,
                  "leans on atomic values that nobody has published: %.4g us with all %zu at the low end of their ranges, "
                  "%.4g at the high end (reckon atomics takes them one by one)",
                  low, count, high);
    }
    return status;
}
