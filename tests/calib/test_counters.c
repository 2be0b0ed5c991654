/* Hardware counters beside simulated ones: what a table row becomes, its arithmetic, and damaged tables as one line. */
#include "calib/counters.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char header[] =
    "kernel,params,dram__sectors_read,dram__sectors_write,l1tex__t_sectors_pipe_lsu_mem_global_op_ld,"
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit,lts__t_sectors_op_red,lts__t_sectors_op_write,"
    "lts__t_sectors_srcunit_ltcfabric,lts__t_sectors_srcunit_ltcfabric_lookup_hit,lts__t_sectors_srcunit_tex,"
    "lts__t_sectors_srcunit_tex_lookup_hit\n";

static enum sim_status compare(const char *head, const char *lines, struct counters_table *table,
                               struct sim_error *error)
{
    char path[64];
    struct reckon *reckon = NULL;
    struct reckon_device *device = NULL;
    struct reckon_options options = { .jobs = 1, .seed = 1 };
    setenv("RECKON_DATA", SOURCE_DIR, 1);
    snprintf(path, sizeof path, "/tmp/reckon_counters_%d.csv", (int)getpid());
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL && fprintf(file, "%s%s", head, lines) > 0 && fclose(file) == 0);
    cr_assert(eq(int, reckon_create(&options, &reckon, error), SIM_OK));
    cr_assert(eq(int, reckon_device_open(reckon, "h200", NULL, &device, error), SIM_OK), "%s", error->text);
    enum sim_status status = counters_compare(reckon, device, 2, path, table, error);
    reckon_device_close(device);
    reckon_destroy(reckon);
    unlink(path);
    return status;
}

/* 1200 sectors of the units of which 600 / 3 * 2 = 400 are stores, which hit: loads 800, near hits (1000 - 400) / 800 = 0.75.
 * 480 of the other partition of which 600 / 3 = 200 are stores: loads 280, hits (340 - 200) / 280 = 0.5. */
Test(counters, hits_of_loads_are_what_stores_leave)
{
    struct counters_table table;
    struct sim_error error = { 0 };
    cr_assert(
        eq(int,
           compare(header,
                   "copy,mb=0.5,10,20,850,50,0,600,480,340,1200,1000\nwr_rand,mb=16,1,1,1,1,1,1,1,1,1,1\n",
                   &table, &error),
           SIM_OK),
        "%s", error.text);
    cr_assert(eq(sz, table.row_count, 1));
    cr_expect(eq(sz, table.left_out, 1));
    const struct counters_row *row = &table.rows[0];
    cr_expect(eq(str, (char *)row->suite, "bandwidth"));
    cr_expect(eq(str, (char *)row->params, "mb=0.5"));
    cr_expect(ieee_ulp_eq(dbl, row->unit_bytes, 1200 * 32.0, 1));
    cr_expect(ieee_ulp_eq(dbl, row->measured.dram_read_bytes, 10 * 32.0, 1));
    cr_expect(ieee_ulp_eq(dbl, row->measured.near_hit, 0.75, 4));
    cr_expect(ieee_ulp_eq(dbl, row->measured.far_hit, 0.5, 4));
    /* A copy of half a MiB that ran before finds its 256 KiB of source in L2: the half that is at home in the reader's own
     * partition near, the other far, since copies in the other partition end with the kernel that made them. */
    cr_expect(row->simulated.near_hit > 0.4 && row->simulated.near_hit < 0.6, "near %g", row->simulated.near_hit);
    cr_expect(row->simulated.far_hit > 0.9 && row->simulated.dram_read_bytes < 0.1 * (1 << 18), "far %g, DRAM %g",
              row->simulated.far_hit, row->simulated.dram_read_bytes);
    counters_finish(&table);
}

Test(counters, atomics_hide_the_hits_of_loads)
{
    struct counters_table table;
    struct sim_error error = { 0 };
    cr_assert(eq(int, compare(header, "copy,mb=0.5,10,20,850,50,100,600,480,340,1200,1000\n", &table, &error),
                 SIM_OK),
              "%s", error.text);
    cr_expect(isnan(table.rows[0].measured.near_hit) && isnan(table.rows[0].measured.far_hit), "near %g",
              table.rows[0].measured.near_hit);
    counters_finish(&table);
}

/* Labels become the registry's names and parameters; all are accepted by it, or the comparison would fail. */
struct label {
    char line[80], kernel[48], params[120];
};

ParameterizedTestParameters(counters, labels_become_kernels)
{
    static struct label cases[] = {
        { "gather,rb=32;mb=1;n=4096", "random_rows", "row_bytes=32;table_mb=1;n=4096" },
        { "gis_b,D=32;rows=1000;run=1;cache=1", "backward_cached", "D=32;rows=1000;run=1;n=2097152" },
        { "gis_b,D=32;rows=1000;run=1;cache=0", "backward_atomic", "D=32;rows=1000;run=1;n=2097152" },
        { "tbe_f,B=16384;D=128;R=1000;al=1;half=1", "forward",
          "B=16384;T=10;L=40;D=128;rows=1000;alpha=1;prec=fp16" },
        { "bounds,B=4096;bag=112;bx=8;rate=0", "per_thread_atomic",
          "batch=4096;bag=112;block_x=8;rate=0;tables=30;indices=13762560" },
    };
    return cr_make_param_array(struct label, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct label *c, counters, labels_become_kernels)
{
    char line[160];
    struct counters_table table;
    struct sim_error error = { 0 };
    snprintf(line, sizeof line, "%s,1,1,1,0,0,0,1,1,1,1\n", c->line);
    cr_assert(eq(int, compare(header, line, &table, &error), SIM_OK), "%s", error.text);
    cr_expect(eq(str, table.rows[0].kernel, c->kernel));
    cr_expect(eq(str, table.rows[0].params, c->params));
    counters_finish(&table);
}

Test(counters, damaged_tables_are_refused)
{
    struct counters_table table;
    struct sim_error error = { 0 };
    cr_expect(eq(int, compare("kernel,params,dram__sectors_read\n", "", &table, &error), SIM_BAD_FILE));
    cr_expect(strstr(error.text, ":1: no column dram__sectors_write") != NULL, "%s", error.text);
    cr_expect(eq(int, compare(header, "copy,mb=0.5,10,20\n", &table, &error), SIM_BAD_FILE));
    cr_expect(strstr(error.text, ":2: not as many columns") != NULL, "%s", error.text);
    cr_expect(eq(int, compare(header, "copy,mb=0.5,x,20,850,50,0,600,480,340,1200,1000\n", &table, &error),
                 SIM_BAD_FILE));
    cr_expect(strstr(error.text, ":2: dram__sectors_read is 'x'") != NULL, "%s", error.text);
    cr_expect(eq(int, compare(header, "copy,mb=0,1,20,850,50,0,600,480,340,1200,1000\n", &table, &error),
                 SIM_BAD_ARGUMENT));
    cr_expect(strstr(error.text, "bandwidth/copy mb=0") != NULL, "%s", error.text);
}
