/* Every kernel of this folder at a small size, on 32 and 64 lanes, through the interpreter of walk.h. The bytes expected
 * are written as the arithmetic of the kernel: what it must read, write and add up, from its parameters alone. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include "tests/kernels/walk.h"

#define ANY -1.0 /* depends on the drawn indices: checked elsewhere or not at all */

struct program_case {
    const char *suite, *kernel, *params;
    double loads, stores; /* bytes over all launches, each counted once */
    double atomics;       /* elements */
};

/* 4 units in walk_machine(), so 32 workgroups of 256 where a grid is 8 per unit. */
#define PERSISTENT_THREADS (8.0 * 4 * 256)
#define MIB 1048576.0

static const struct program_case cases[] = {
    { "launch", "empty", "n=3;grid=1", 0, 0, 0 },
    { "launch", "dispatch", "grid=10;block=128", 0, 0, 0 },
    { "launch", "chain_stream", "n=1000;kernels=200", 4 * 1000, 4 * 1000, 0 },
    { "launch", "chain_graph", "n=1;kernels=200", 4, 4, 0 },
    /* 4 bytes a load. 64 KiB: the chain of 64 + 4096 before the measured one touched the same lines. 16 GiB: it did not */
    { "latency", "chase_l2bypassl1", "kb=64", 4 * (64 + 4096 + 4096), 0, 0 },
    { "latency", "chase_l2bypassl1", "kb=16777216", 4 * (64 + 16384), 0, 0 },
    { "latency", "chase_l1", "kb=16", 4 * (512 + 4096), 0, 0 },
    { "latency", "per_sm", "sm=3", 4 * 64 * 74, 0, 0 },
    { "bandwidth", "read", "mb=1.5;it=3", 3 * 1.5 * MIB, 0, 0 },
    { "bandwidth", "write", "mb=0.001;it=2", 0, 2 * 16 * 65, 0 }, /* 65 whole elements in 1048.576 bytes */
    { "bandwidth", "copy", "mb=2", MIB, MIB, 0 },
    { "occupancy", "read_ctas", "ctas=1;threads=1024", 16.0 * 2033601, 0, 0 }, /* floor(2^28 / 132) elements */
    { "alu", "fma", "n=100", 0, 0, 0 },
    { "gather", "random_rows", "row_bytes=128;table_mb=1;n=10000", 10000 * (128 + 4), 0, 0 },
    { "gather", "random_rows", "row_bytes=128;table_mb=1;n=10000;generator=zipf;alpha=1.2", 10000 * (128 + 4), 0, 0 },
    /* groups of 24 lanes straddle waves, which both load the index: rows only */
    { "gather", "random_rows", "row_bytes=384;table_mb=1;n=1000", ANY, 0, 0 },
    { "atomic_operations", "atomicAdd", "blocks=10;threads=256;ops_per_thread=4", 0, 0, ANY }, /* a lane of each wave */
    { "atomic_operations", "atomicCAS", "blocks=10;threads=256;ops_per_thread=4", 0, 0, 10 * 256 * 4 },
    { "altis_gups", "update", "threads=1024;updates=8;table=100", 0, 0, 1024 * 8 },
    { "npb_ep", "histogram", "n=5000", 4 * 5000, 0, 5000 },
    { "atomic", "add_u32", "mode=0;naddr=8;stride=4", 0, 0, PERSISTENT_THREADS * 8 },
    { "atomic", "add_u32", "mode=2;naddr=1000;stride=256", 0, 0, PERSISTENT_THREADS * 32 },
    { "atomic", "add_u64", "mode=1;naddr=65536;stride=8", 0, 0, PERSISTENT_THREADS * 32 },
    { "atomic", "add_f32", "mode=1;naddr=16;ops=8192", 0, 0, 8192 },
    { "atomic", "add_f16x2", "mode=2;naddr=64", 0, 0, PERSISTENT_THREADS * 32 },
    { "atomic", "same_addr_scale", "grid=3;block=33", 0, 0, 3 * 33 * 64 },
    { "atomic", "same_addr_return", "grid=2;block=1", 0, 0, 2 * 64 }, /* one lane issues for its wave */
    { "atomic", "shared_u32", "naddr=32", 0, 0, 0 },
    /* no bag is split over waves here: per bag its two offsets (16), its row count (8) and 5 indices */
    { "bounds_check", "per_thread_atomic", "tables=2;batch=100;bag=5;block_x=64;rate=0", ANY, 0, 0 },
    { "bounds_check", "tree_reduction", "tables=2;batch=100;bag=5;block_x=8;rate=0", ANY, 0, 0 },
    { "bounds_check", "tree_reduction", "tables=3;batch=5;bag=70;block_x=32;rate=0.5", ANY, ANY, ANY },
    { "bounds_check", "per_thread_atomic", "tables=3;batch=7;bag=9;block_x=48;rate=1", ANY, 8.0 * 3 * 7 * 9, ANY },
    { "gis", "forward", "D=64;rows=1000;run=4;n=1024", ANY, 4.0 * 1024 * 64, 0 },
    { "gis", "backward_atomic", "D=64;rows=1000;run=4;n=1024", ANY, 0, 1024 * 64 },
    /* rows repeat 4 times and then, among 10 million, never again: one addition per run and column */
    { "gis", "backward_cached", "D=64;rows=10000000;run=4;n=1024", ANY, 0, 1024 / 4 * 64 },
    { "gis", "backward_atomic", "D=20;rows=7;run=1;n=100", ANY, 0, 100 * 20 },
    { "gis", "backward_sorted", "D=64;rows=300;run=4;n=1024", ANY, ANY, ANY },
    { "gis", "backward_sorted", "D=20;rows=7;run=1;n=100", ANY, ANY, ANY },
    { "tbe", "backward", "B=2000;T=3;L=7;D=64;rows=1000;alpha=1.15;prec=fp32", ANY, ANY, ANY },
    { "tbe", "forward", "B=50;T=3;L=7;D=64;rows=1000;alpha=1;prec=fp32;code=measured", 50 * 3 * 7 * (4 + 256), 50 * 3 * 256, 0 },
    { "tbe", "forward", "B=50;T=3;L=7;D=64;rows=1000;alpha=1.15;prec=fp16;code=measured", 50 * 3 * 7 * (4 + 128), 50 * 3 * 128, 0 },
    /* indices 8, rows of 2 D, fp32 out; tables and offsets besides */
    { "tbe", "forward", "B=50;T=3;L=40;D=192;rows=1000;prec=fp16;code=library", ANY, 50 * 3 * 768, 0 },
    /* a bag: its number, half of the table's information, two offsets, indices, rows, its place */
    { "tbe", "forward", "B=50;T=3;L=40;D=192;rows=1000;prec=fp16;code=library;batches=variable",
      150 * (4 + 32 + 16 + 40 * 8 + 40 * 384 + 8), 50 * 3 * 768, 0 },
    { "tbe", "forward", "B=51;T=3;L=7;D=8;rows=1000;prec=fp16;code=library;fix=row-pack", ANY, 51 * 3 * 32, 0 },
    /* more bags than the grid has waves: 20,000 x 2 of 3 lookups; nothing is lost or done twice */
    { "tbe", "forward", "B=20000;T=2;L=3;D=8;rows=1000;prec=fp32;code=library;batches=variable",
      40000ull * (4 + 32 + 16 + 3 * 8 + 3 * 32 + 8), 40000 * 32, 0 },
    /* without pooling every lookup writes its row; narrow rows go several at once */
    { "tbe", "forward", "B=50;T=3;L=70;D=64;rows=1000;prec=fp16;code=library;pooling=none",
      150 * (32 + 16 + 70 * 8 + 70 * 128), 150 * 70 * 256, 0 },
    { "tbe", "forward", "B=50;T=3;L=7;D=16;rows=1000;prec=fp32;code=library;pooling=none",
      150 * (32 + 16 + 7 * 8 + 7 * 64), 150 * 7 * 64, 0 },
    { "tbe", "backward", "B=2000;T=3;L=7;D=64;rows=1000;alpha=1.15;prec=fp16;fix=wave-per-row", ANY, ANY, ANY },
    { "tbe", "backward", "B=2000;T=3;L=7;D=64;rows=1000;prec=fp16;optimizer=sgd;resident=2048", ANY, ANY, ANY },
    { "tbe", "forward", "B=20;T=2;L=9;D=2048;rows=1000;prec=fp32;code=library", ANY, 20 * 2 * 8192, 0 },
    { "tbe", "backward", "B=2000;T=1;L=2;D=384;rows=300;prec=fp32", ANY, ANY, ANY },
    { "tbe", "backward", "B=1500;T=1;L=2;D=2048;rows=100;prec=fp32;hot_share=0.8", ANY, ANY, ANY },
    { "tbe", "backward", "B=2000;T=1;L=2;D=12;rows=300;prec=fp16;threshold=4", ANY, ANY, ANY },
    { "bounds_check", "per_thread_atomic", "tables=2;batch=100;bag=5;rate=0.3;claim=thread", ANY, ANY, ANY },
    { "bounds_check", "tree_reduction", "tables=2;batch=100;bag=5;rate=0.3;claim=wave", ANY, ANY, ANY },
    { "tbe", "backward_atomic", "B=50;T=3;L=7;D=64;rows=1000;alpha=1;prec=fp32", 50 * 3 * 7 * (4 + 256), 0,
      50 * 3 * 7 * 64 },
    { "tbe", "backward_atomic", "B=50;T=3;L=7;D=192;rows=1000;alpha=1.15;prec=fp16", 50 * 3 * 7 * (4 + 384), 0,
      50 * 3 * 7 * 96 }, /* two halves an element */
    { "tbe", "sort", "B=500;T=3;L=7;D=64;rows=1000;alpha=1;prec=fp32", ANY, ANY, ANY },
    /* 33 offsets and the indices; a bag's number of 4 and a row of 8 bytes each */
    { "tbe", "linearize", "bags=32;n=100", 33 * 8 + 100 * 8, 100 * 12, 0 },
    { "tbe", "linearize", "bags=3000;n=190001;index_bytes=4", ANY, 190001 * 12, 0 },
    { "tbe", "linearize", "bags=3000;n=7", ANY, 7 * 12, 0 },
    { "tbe", "permute", "features=3;batch=101;n=15001;index_bytes=4;weight_bytes=4", ANY, 15001 * 8, 0 },
    { "tbe", "permute", "features=2;batch=50;n=7;index_bytes=8", ANY, 7 * 8, 0 },
    { "sort", "single_tile", "n=351;value_bytes=8;bits=23", 351 * 16, 351 * 16, 0 },
    { "sort", "single_tile", "n=2304;value_bytes=0;bits=7", 2304 * 8, 2304 * 8, 0 },
    { "sort", "histogram", "n=5000;passes=3", 5000 * 8, 0, ANY },
    { "sort", "bin_sum", "passes=3", 3 * 256 * 8, 3 * 256 * 8, 0 },
    /* 8 tiles of 2,816: each asks for its turn and leaves 256 counters; 7 read one row of them, 6 a second */
    { "sort", "sweep", "n=21000;key_bytes=4;threads=256;items=11", 21000 * 8 + 13 * 1024,
      21000 * 8 + 8 * 1024, 8 },
    /* 3 tiles of 1,920: the second reads one sum of 16 bytes, the third two */
    { "sort", "chained", "n=5000;items=15", 5000 * 4 + 3 * 16, 5000 * 4, 0 },
    { "tbe", "backward_sorted", "B=500;T=3;L=7;D=192;rows=1000;alpha=1;prec=fp32", ANY, ANY, 0 },
    { "tbe", "backward_sorted", "B=500;T=3;L=7;D=64;rows=1000;alpha=1.15;prec=fp16", ANY, ANY, 0 },
    /* offsets 16, indices 8, rows of 2 D; fp32 out */
    { "tbe_fused", "forward", "B=50;T=3;L=7;D=64;rows=1000;alpha=1", 50 * 3 * (16 + 7 * (8 + 128)), 50 * 3 * 256, 0 },
    { "tbe_fused", "forward", "B=50;T=3;L=7;D=192;rows=1000;alpha=1.15;prec=fp16;generator=fbgemm_zipf",
      50 * 3 * (16 + 7 * (8 + 384)), 50 * 3 * 768, 0 },
    { "tbe_fused", "linearise_sort", "B=500;T=3;L=7;D=64;rows=1000;alpha=1", ANY, ANY, ANY },
    { "tbe_fused", "run_lengths", "B=500;T=3;L=7;D=64;rows=1000;alpha=1", ANY, ANY, 0 },
    { "tbe_fused", "backward_short_runs", "B=500;T=3;L=7;D=64;rows=1000;alpha=1;threshold=5", ANY, ANY, 0 },
    { "tbe_fused", "backward_short_runs", "B=500;T=2;L=9;D=64;rows=1000;alpha=1.2;threshold=0", ANY, ANY, 0 },
    { "tbe_fused", "backward_long_runs", "B=2000;T=3;L=7;D=64;rows=1000;alpha=1.15;threshold=32", ANY, ANY, ANY },
    { "tbe_fused", "backward_finalise", "B=2000;T=3;L=7;D=64;rows=1000;alpha=1.15;threshold=32", ANY, ANY, 0 },
    { "tbe_fused", "backward", "B=2000;T=3;L=7;D=64;rows=1000;alpha=1.15;threshold=32", ANY, ANY, ANY },
    { "scatter", "index_add", "n=100;D=64;rows=10;dtype=fp32", ANY, 0, 100 * 64 },
    { "scatter", "index_add", "n=1000;D=3;rows=10;hot_share=0.5;kind=cas;order=acq_rel", ANY, 0, 1000 * 3 },
    { "scatter", "index_put", "n=100;D=64;rows=10;dtype=fp16", ANY, 0, 100 * 64 },
    { "scatter", "scatter_add", "n=1000;D=1;rows=100;dtype=bf16;alpha=1.2", ANY, 0, 1000 },
    { "embedding", "backward_atomic", "n=100;D=64;rows=10;hot_share=0.1", ANY, 0, 100 * 64 },
    { "scatter", "scatter_add", "n=1001;D=128;rows=100;code=bulk", 1001 * (512 + 8), 0, 1001 * 128 },
    { "scatter", "scatter_add", "n=1001;D=64;rows=100;dtype=bf16;code=bulk;tile=1", 1001 * (128 + 8), 0, 1001 * 64 },
    { "scatter", "scatter_add", "n=101;D=300;rows=100;code=bulk", 101 * (1200 + 3 * 8), 0, 101 * 300 }, /* three chunks a row */
    { "scatter", "index_select", "n=100;D=64;rows=10;dtype=fp32", 100 * (8 + 256), 100 * 256, 0 },
    { "scatter", "histogram", "n=5000;rows=100", 4 * 5000, 0, 5000 },
    /* 20 workgroups of 256 hold 5000 values; each adds its 100 counters */
    { "scatter", "histogram", "n=5000;rows=100;bins=private", 4 * 5000, 0, 20 * 100 },
    { "scatter", "histogram", "n=5000;rows=100;counter=u64", 4 * 5000, 0, 5000 },
    { "bounds_check", "per_thread_atomic", "tables=2;batch=100;bag=5;block_x=1;block=256;rate=0.3", ANY, ANY, ANY },
    { "gis", "forward", "D=20;rows=70;run=1;n=100;map=row", ANY, 4.0 * 100 * 20, 0 },
    { "tbe", "forward", "B=51;T=3;L=7;D=8;rows=1000;alpha=0.9;prec=fp16;code=measured", 51 * 3 * 7 * (4 + 16), 51 * 3 * 16, 0 },
    { "embedding", "bag_forward", "B=100;L=7;D=64;rows=1000;dtype=float32", ANY, ANY, 0 },
    { "embedding", "bag_forward", "B=100;L=1;D=100;rows=1000;dtype=float16", ANY, ANY, 0 },
    { "embedding", "bag_backward_dense", "B=300;L=7;D=64;rows=500;dtype=float32", ANY, ANY, ANY },
    /* fixes: 1 atomic a workgroup; private counters as above; copies take the same additions and are summed (17 words read
     * and written per counter: 16 by the fill, 1 by the sum) */
    { "scatter", "histogram", "n=5000;rows=1;fix=tree-reduction", 4 * 5000, 0, 20 },
    { "scatter", "histogram", "n=5000;rows=100;fix=privatise", 4 * 5000, 0, 20 * 100 },
    { "scatter", "histogram", "n=5000;rows=64;fix=privatise;copies=16", 4 * 5000 + 16 * 64 * 4, 17 * 64 * 4, 5000 },
    { "scatter", "histogram", "n=5000;rows=100;fix=sort-segment", ANY, ANY, ANY },
    { "scatter", "histogram", "n=5000;rows=1;fix=wave-aggregate+privatise", 4 * 5000, 0, 20 },
    { "scatter", "index_add", "n=100;D=64;rows=10;fix=register-cache", ANY, 0, ANY },
    { "scatter", "index_add", "n=1000;D=100;rows=10;fix=sort-segment", ANY, ANY, ANY },
    { "scatter", "index_add", "n=1000;D=1;rows=10;dtype=fp16;fix=sort-segment", ANY, ANY, ANY },
    { "scatter", "index_add", "n=1000;D=3;rows=50;fix=wave-aggregate+xcd-swizzle", ANY, 0, ANY },
    { "gis", "backward_atomic", "D=64;rows=10000000;run=4;n=1024;fix=register-cache", ANY, 0, 1024 / 4 * 64 },
    { "gis", "backward_atomic", "D=100;rows=70;run=4;n=1000;fix=sort-segment", ANY, ANY, ANY },
    { "gis", "backward_cached", "D=64;rows=100;n=1024;fix=privatise", ANY, ANY, ANY },
    { "gis", "forward", "D=20;rows=70;run=1;n=100;map=row;fix=row-pack", ANY, 4.0 * 100 * 20, 0 },
    { "tbe", "forward", "B=51;T=3;L=7;D=8;rows=1000;prec=fp16;fix=row-pack;code=measured", 51 * 3 * 7 * (4 + 16), 51 * 3 * 16, 0 },
    /* every lookup of a wave's bag on one row of two pieces: it is added once at the end of the bag */
    { "tbe", "backward_atomic", "B=50;T=3;L=7;D=128;rows=1000;hot_share=1;prec=fp32;fix=register-cache",
      50 * 3 * 7 * (4 + 512), 0, 50 * 3 * 128 },
    { "tbe", "backward_atomic", "B=50;T=3;L=7;D=192;rows=1000;alpha=1.15;prec=fp16;fix=sort-segment", ANY, ANY, ANY },
    { "tbe", "backward_atomic", "B=50;T=3;L=7;D=64;rows=1000;prec=fp32;fix=wave-aggregate", 50 * 3 * 7 * (4 + 256), 0,
      50 * 3 * 7 * 64 },
    { "bounds_check", "per_thread_atomic", "tables=2;batch=100;bag=5;block_x=32;rate=0.3;fix=tree-reduction", ANY, ANY, 2 * 4 },
    { "bounds_check", "per_thread_atomic", "tables=2;batch=100;bag=5;rate=0.3;fix=row-pack", ANY, ANY, ANY },
    { "bounds_check", "per_thread_atomic", "tables=2;batch=100;bag=5;block_x=32;rate=0.3;fix=privatise", ANY, ANY, 2 * 4 },
    /* 2 x 32 bags a workgroup of 2 walk 2 x 100: every index once, an atomic a workgroup */
    { "bounds_check", "tree_reduction", "tables=2;batch=100;bag=50;block_x=32;grid=1;rate=1", ANY, 8.0 * 2 * 100 * 50, 4 },
    { "atomic", "add_u32", "mode=0;naddr=1;ops=8192;fix=tree-reduction", 0, 0, 8192 / (256 * 8) },
    { "atomic", "add_f32", "mode=0;naddr=16;ops=8192;alpha=1.3;fix=privatise", 0, 0, 16 },
    { "atomic", "add_f16x2", "mode=0;naddr=16;ops=8192;fix=sort-segment", ANY, ANY, ANY },
    { "embedding", "bag_backward_dense", "B=3000;L=3;D=100;rows=50;dtype=float16", ANY, ANY, ANY },
};

#define CASE_COUNT (sizeof cases / sizeof cases[0])

struct totals {
    double loads, stores, atomics;
};

/* Walks each launch twice: contract, units, determinism; then in two windows whose work must add up to the whole. */
static struct totals walk_launches(const struct program_case *c, const struct kernel_plan *plan, uint32_t lanes)
{
    struct totals totals = { 0 };
    for (size_t i = 0; i < plan->launch_count; i++) {
        const struct wave_program *program = plan->launches[i].program;
        if (program == NULL) {
            continue;
        }
        struct walk walk = walk_program(program, lanes, WALK_ALL, NULL, NULL);
        struct walk again = walk_program(program, lanes, WALK_ALL, NULL, NULL);
        cr_assert(eq(str, walk.problem, ""), "%s/%s %s, %u lanes", c->suite, c->kernel, c->params, lanes);
        cr_assert(eq(u64, walk.hash, again.hash), "%s/%s %s: %s", c->suite, c->kernel, c->params, program->name);
        cr_assert(eq(u64, walk.units, program->work_units_total), "%s/%s %s, %u lanes: %s", c->suite, c->kernel,
                  c->params, lanes, program->name);
        if (program->trips_per_wave > 1) {
            uint64_t half = program->trips_per_wave / 2;
            struct walk head = walk_program(program, lanes, (struct wave_window){ .trip_limit = half }, NULL, NULL);
            struct walk tail = walk_program(program, lanes, (struct wave_window){ .trip_first = half, .trip_limit = UINT64_MAX }, NULL, NULL);
            cr_assert(eq(str, head.problem, ""));
            cr_assert(eq(str, tail.problem, ""));
            cr_assert(eq(u64, head.units + tail.units, walk.units), "%s/%s %s: %s, window of %llu trips", c->suite,
                      c->kernel, c->params, program->name, (unsigned long long)half);
        }
        totals.loads += (double)walk.load_bytes;
        totals.stores += (double)walk.store_bytes;
        totals.atomics += (double)walk.atomic_lanes;
    }
    return totals;
}

static void run_case(const struct program_case *c, uint32_t lanes)
{
    struct kernel_plan *plan = walk_plan(c->suite, c->kernel, c->params, lanes);
    struct totals totals = walk_launches(c, plan, lanes);
    if (c->loads != ANY) {
        cr_expect(eq(dbl, totals.loads, c->loads), "%s/%s %s, %u lanes: loads", c->suite, c->kernel, c->params, lanes);
    }
    if (c->stores != ANY) {
        cr_expect(eq(dbl, totals.stores, c->stores), "%s/%s %s, %u lanes: stores", c->suite, c->kernel, c->params,
                  lanes);
    }
    if (c->atomics != ANY) {
        cr_expect(eq(dbl, totals.atomics, c->atomics), "%s/%s %s, %u lanes: atomics", c->suite, c->kernel, c->params,
                  lanes);
    }
    kernel_plan_destroy(plan);
}

Test(programs, obey_the_contract_on_32_lanes, .timeout = 100)
{
    for (size_t i = 0; i < CASE_COUNT; i++) {
        run_case(&cases[i], 32);
    }
}

Test(programs, obey_the_contract_on_64_lanes, .timeout = 100)
{
    for (size_t i = 0; i < CASE_COUNT; i++) {
        run_case(&cases[i], 64);
    }
}

/* A kernel added to one of these suites without a case above is an oversight. */
Test(programs, every_kernel_of_these_suites_has_a_case)
{
    static const char *const suites[] = { "launch", "latency", "bandwidth", "alu", "gather", "atomic", "bounds_check",
                                          "gis", "tbe", "tbe_fused", "scatter", "embedding", "sort" };
    for (size_t r = 0; r < kernel_registry_count(); r++) {
        struct kernel_entry entry = kernel_registry_at(r);
        bool ours = false, found = false;
        for (size_t s = 0; s < sizeof suites / sizeof suites[0]; s++) {
            ours = ours || strcmp(suites[s], entry.suite) == 0;
        }
        for (size_t i = 0; i < CASE_COUNT; i++) {
            found = found || (strcmp(cases[i].suite, entry.suite) == 0 && strcmp(cases[i].kernel, entry.kernel) == 0);
        }
        cr_expect(not(ours && !found), "%s/%s has no case", entry.suite, entry.kernel);
    }
}

/* All 2,500 lookups on one row of 384: three pieces of at most 1,024. Each lookup's gradient row is read once, 2,500 x 384 x 4;
 * each piece adds 384 elements and counts itself off, and the last updates the one row, 384 x 4 bytes, and its momentum. */
Test(programs, a_long_run_of_wide_rows_is_summed_once)
{
    for (uint32_t lanes = 32; lanes <= 64; lanes *= 2) {
        struct kernel_plan *plan = walk_plan("tbe", "backward", "B=2500;T=1;L=1;D=384;rows=300;prec=fp32;hot_share=1", lanes);
        bool found = false;
        for (size_t i = 0; i < plan->launch_count; i++) {
            const struct wave_program *program = plan->launches[i].program;
            if (strcmp(program->name, "tbe backward, long runs") != 0) {
                continue;
            }
            struct walk walk = walk_program(program, lanes, WALK_ALL, NULL, NULL);
            found = true;
            cr_expect(eq(str, walk.problem, ""));
            cr_expect(eq(u64, program->workgroups, 3));
            cr_expect(eq(u64, walk.units, 2500));
            cr_expect(eq(u64, walk.atomic_lanes, 3 * (384 + 1)));
            cr_expect(eq(u64, walk.store_bytes, 384 * 4 + 4));
            cr_expect(ge(u64, walk.load_bytes, 2500u * 384 * 4));
        }
        cr_expect(found);
        kernel_plan_destroy(plan);
    }
}
