/* Copy engines: host to device, back, both at once, from pageable memory, and within the device. */
#include "calib/microkernels/micro.h"

static bool same(const std::vector<uint8_t> &a, const uint8_t *b)
{
    return memcmp(a.data(), b, a.size()) == 0;
}

static void copy_rows(size_t bytes)
{
    uint8_t *pinned_in, *pinned_out;
    std::vector<uint8_t> pageable(bytes), back(bytes);
    device_array<uint8_t> here(bytes), there(bytes);
    double mib = (double)bytes / 1048576;
    uint64_t state = micro.seed;
    CHECK_HIP(hipHostMalloc((void **)&pinned_in, bytes, hipHostMallocDefault));
    CHECK_HIP(hipHostMalloc((void **)&pinned_out, bytes, hipHostMallocDefault));
    for (size_t i = 0; i < bytes; i++) {
        pageable[i] = pinned_in[i] = (uint8_t)(i % 4096 == 0 ? next_random(state) : i);
    }
    auto put = [&](const char *kernel, const struct timing &t, double moved, bool right) {
        row("memcpy", kernel, text("mb=%g", mib), t, moved / t.median_us * 1e-3, "GB/s", right);
    };
    struct timing t = timed([&] { CHECK_HIP(hipMemcpyAsync(here.at, pinned_in, bytes, hipMemcpyHostToDevice, 0)); });
    put("h2d_pinned", t, (double)bytes, same(pageable, here.get().data()));
    t = timed([&] { CHECK_HIP(hipMemcpyAsync(pinned_out, here.at, bytes, hipMemcpyDeviceToHost, 0)); });
    put("d2h_pinned", t, (double)bytes, same(pageable, pinned_out));
    here.zero();
    t = timed([&] { CHECK_HIP(hipMemcpyAsync(here.at, pageable.data(), bytes, hipMemcpyHostToDevice, 0)); });
    put("h2d_pageable", t, (double)bytes, same(pageable, here.get().data()));
    t = timed([&] { CHECK_HIP(hipMemcpyAsync(there.at, here.at, bytes, hipMemcpyDeviceToDevice, 0)); });
    put("d2d", t, 2.0 * (double)bytes, same(pageable, there.get().data()));
    hipStream_t up, down;
    hipEvent_t begun, done;
    CHECK_HIP(hipStreamCreateWithFlags(&up, hipStreamNonBlocking));
    CHECK_HIP(hipStreamCreateWithFlags(&down, hipStreamNonBlocking));
    CHECK_HIP(hipEventCreate(&begun));
    CHECK_HIP(hipEventCreate(&done));
    t = timed([&] {
        CHECK_HIP(hipEventRecord(begun, 0));
        CHECK_HIP(hipStreamWaitEvent(up, begun, 0));
        CHECK_HIP(hipStreamWaitEvent(down, begun, 0));
        CHECK_HIP(hipMemcpyAsync(there.at, pinned_in, bytes, hipMemcpyHostToDevice, up));
        CHECK_HIP(hipMemcpyAsync(pinned_out, here.at, bytes, hipMemcpyDeviceToHost, down));
        for (hipStream_t s : { up, down }) {
            CHECK_HIP(hipEventRecord(done, s));
            CHECK_HIP(hipStreamWaitEvent(0, done, 0));
        }
    });
    put("both_ways_pinned", t, 2.0 * (double)bytes, same(pageable, pinned_out));
    CHECK_HIP(hipEventDestroy(begun));
    CHECK_HIP(hipEventDestroy(done));
    CHECK_HIP(hipStreamDestroy(up));
    CHECK_HIP(hipStreamDestroy(down));
    CHECK_HIP(hipHostFree(pinned_in));
    CHECK_HIP(hipHostFree(pinned_out));
}

int main(int argc, char **argv)
{
    micro_begin(argc, argv);
    for (size_t bytes : { (size_t)4096, (size_t)65536, (size_t)1 << 20, (size_t)16 << 20, (size_t)256 << 20 }) {
        copy_rows(bytes);
    }
    return micro_end();
}
