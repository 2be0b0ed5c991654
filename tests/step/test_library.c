/* Libraries as data: which class a product falls in, and that damage is named. */
#include "sim/step/library_profile.h"
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EFFICIENCY(value) \
    "\"efficiency\": {\"value\": " value ", \"unit\": \"ratio\", \"low\": 0.1, \"high\": 1, \"kind\": \"fitted\", \"source\": \"s\"}"

static enum sim_status read_with_menu(const char *menu, const char *classes, struct library_profile *library, struct sim_error *error)
{
    char path[] = "/tmp/reckon-library-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    cr_assert(file != NULL);
    fprintf(file, "{%s\"schema\": \"reckon.library/1\", \"name\": \"l\", \"title\": \"t\", \"tables\": [\"lib\"], \"devices\": [\"chip\"], "
                  "\"large_tile\": 256, \"classes\": [%s]}", menu, classes);
    fclose(file);
    enum sim_status status = library_profile_read(path, library, error);
    unlink(path);
    return status;
}

static enum sim_status read_text(const char *classes, struct library_profile *library, struct sim_error *error)
{
    return read_with_menu("", classes, library, error);
}

#define FILLED(value) "\"filled\": {\"value\": " value ", \"unit\": \"ratio\", \"low\": 0.2, \"high\": 0.6, \"kind\": \"fitted\", \"source\": \"s\"}"

static const struct kernel_product square = { 4096, 4096, 4096, 1, "bf16", "nt", 0, 0 };

/* 4096 x 4096 is 16 x 16 tiles of 256: on 256 units one full round, on 255 a second round with one tile, 256 of 510 = 0.502. */
Test(library, fill_counts_the_rounds_of_large_tiles)
{
    struct library_profile library;
    struct sim_error error = { 0 };
    cr_assert(eq(int, read_text("{\"name\": \"part\", \"fill_least\": 0.5, \"fill_below\": 0.503, " EFFICIENCY("0.5") "}, "
                                "{\"name\": \"full\", \"fill_least\": 1, " EFFICIENCY("0.9") "}", &library, &error), SIM_OK),
              "%s", error.text);
    cr_assert(library_class_of(&library, 256, &square) != NULL);
    cr_expect(strcmp(library_class_of(&library, 256, &square)->name, "full") == 0);
    cr_assert(library_class_of(&library, 255, &square) != NULL);
    cr_expect(eq(dbl, library_class_of(&library, 255, &square)->efficiency, 0.5));
    cr_expect(library_class_of(&library, 200, &square) == NULL, "256 of 400 is in neither");
}

/* The first class that holds counts; bounds include their ends but fill_below. */
Test(library, a_class_holds_by_dtype_order_side_depth_and_multiple)
{
    struct library_profile library;
    struct sim_error error = { 0 };
    cr_assert(eq(int, read_text("{\"name\": \"odd\", \"not_multiple_of\": 64, " EFFICIENCY("0.2") "}, "
                                "{\"name\": \"tf\", \"dtypes\": \"tf32|fp32\", \"trans\": \"tn\", " EFFICIENCY("0.3") "}, "
                                "{\"name\": \"narrow\", \"side_most\": 128, \"k_least\": 100, " EFFICIENCY("0.4") "}", &library, &error),
                 SIM_OK), "%s", error.text);
    struct kernel_product p = square;
    cr_expect(library_class_of(&library, 256, &p) == NULL);
    p.n = 200;
    cr_expect(strcmp(library_class_of(&library, 256, &p)->name, "odd") == 0);
    p = square;
    p.dtype = "fp32";
    cr_expect(library_class_of(&library, 256, &p) == NULL, "not transposed");
    p.trans = "tn";
    cr_expect(strcmp(library_class_of(&library, 256, &p)->name, "tf") == 0);
    p = square;
    p.m = 128;
    cr_expect(strcmp(library_class_of(&library, 256, &p)->name, "narrow") == 0);
    p.k = 99;
    cr_expect(library_class_of(&library, 256, &p) == NULL);
}

/* 2048 x 2048 is 64 tiles of 256, 256 of 128, 1,024 of 64. Of 256 units a quarter is filled by the first, all by the second. */
Test(library, the_menu_takes_the_largest_tile_that_fills_the_units)
{
    struct library_profile library;
    struct sim_error error = { 0 };
    uint32_t m = 0, n = 0;
    struct kernel_product p = square;
    p.m = p.n = 2048;
    cr_assert(eq(int, read_with_menu("\"menu\": {\"tiles\": [[256, 256], [128, 128], [64, 64]], \"side_least\": 129, " FILLED("0.25") "}, ", "", &library, &error),
                 SIM_OK), "%s", error.text);
    cr_expect(eq(sz, library_menu_tile(&library, 256, &p, 0, &m, &n), 0));
    cr_expect(eq(u32, m, 256));
    cr_expect(eq(sz, library_menu_tile(&library, 257, &p, 0, &m, &n), 1), "64 of 257 units are less than a quarter");
    cr_expect(eq(u32, n, 128));
    cr_expect(eq(sz, library_menu_tile(&library, 256, &p, 1, &m, &n), 1), "where the first does not run");
    cr_expect(eq(sz, library_menu_tile(&library, 100000, &p, 0, &m, &n), 3), "none fills so many");
    p.n = 128; /* narrow */
    cr_expect(eq(sz, library_menu_tile(&library, 4, &p, 0, &m, &n), 3));
    p.n = 130; /* 8 x 1 tiles of 256 x 256; 128 columns would not do */
    cr_expect(eq(sz, library_menu_tile(&library, 32, &p, 0, &m, &n), 0));
    cr_expect(eq(u32, n, 256));
    p.batch = 32; /* side by side */
    cr_expect(eq(sz, library_menu_tile(&library, 1024, &p, 0, &m, &n), 0));
}

/* 4096 x 1024 is 16 x 8 tiles of 256 x 128, 1024 x 4096 8 x 16 of 128 x 256. */
Test(library, the_long_side_of_a_tile_lies_along_the_products)
{
    struct library_profile library;
    struct sim_error error = { 0 };
    uint32_t m = 0, n = 0;
    struct kernel_product tall = { 4096, 1024, 4096, 1, "bf16", "nt", 0, 0 }, wide = { 1024, 4096, 4096, 1, "bf16", "nt", 0, 0 };
    cr_assert(eq(int, read_with_menu("\"menu\": {\"tiles\": [[256, 128]], " FILLED("0.5") "}, ", "", &library, &error), SIM_OK), "%s", error.text);
    cr_expect(eq(sz, library_menu_tile(&library, 256, &tall, 0, &m, &n), 0));
    cr_expect(eq(u32, m, 256));
    cr_expect(eq(sz, library_menu_tile(&library, 256, &wide, 0, &m, &n), 0));
    cr_expect(eq(u32, m, 128));
    cr_expect(eq(u32, n, 256));
}

/* 1024 x 1024 is 64 tiles of 128 and 256 of 64: half of 256 units ask for the latter, of which no more is known beyond a K of 8192. */
Test(library, a_tile_is_taken_up_to_the_k_that_it_is_known_for)
{
    struct library_profile library;
    struct sim_error error = { 0 };
    uint32_t m = 0, n = 0;
    struct kernel_product p = { 1024, 1024, 8192, 1, "bf16", "nt", 0, 0 };
    cr_assert(eq(int, read_with_menu("\"menu\": {\"tiles\": [[128, 128], [64, 64, 8192]], " FILLED("0.5") "}, ", "", &library, &error), SIM_OK), "%s", error.text);
    cr_expect(eq(sz, library_menu_tile(&library, 256, &p, 0, &m, &n), 1));
    p.k = 8193;
    cr_expect(eq(sz, library_menu_tile(&library, 256, &p, 0, &m, &n), 2), "the selector's tile");
    p.m = 2048; /* 128 of 128: half of the units, whatever K */
    cr_expect(eq(sz, library_menu_tile(&library, 256, &p, 0, &m, &n), 0));
}

/* A side that the product would not fill by half is halved: 100 columns take 128 of them. */
Test(library, a_tile_of_the_menu_is_no_wider_than_the_product_needs)
{
    struct library_profile library;
    struct sim_error error = { 0 };
    uint32_t m = 0, n = 0;
    struct kernel_product p = { 32768, 100, 5120, 1, "bf16", "nt", 0, 0 };
    cr_assert(eq(int, read_with_menu("\"menu\": {\"tiles\": [[256, 256]], " FILLED("0.5") "}, ", "", &library, &error), SIM_OK), "%s", error.text);
    cr_expect(eq(sz, library_menu_tile(&library, 256, &p, 0, &m, &n), 0), "128 tiles are half of 256 units");
    cr_expect(eq(u32, m, 256));
    cr_expect(eq(u32, n, 128));
}

#define CONFIGURATIONS(rows) "\"configurations\": {\"source\": \"s\", \"rows\": [" rows "]}, "

/* The first whose rows hold the product's; the last holds all others; 16-bit operands alone have any. */
Test(library, a_configuration_holds_by_rows_alone)
{
    struct library_profile library;
    struct sim_error error = { 0 };
    struct kernel_product p = { 64, 100, 5120, 1, "bf16", "nt", 0, 0 };
    cr_assert(eq(int, read_with_menu(CONFIGURATIONS("{\"m_most\": 64, \"tile\": [64, 32, 256], \"stages\": 3}, "
                                                    "{\"tile\": [256, 128, 64], \"stages\": 2}"), "", &library, &error), SIM_OK), "%s", error.text);
    const struct library_configuration *found = library_configuration_of(&library, &p);
    cr_assert(found != NULL);
    cr_expect(eq(u32, found->n, 32));
    cr_expect(eq(u32, found->stages, 3));
    p.m = 65;
    cr_expect(eq(u32, library_configuration_of(&library, &p)->m, 256));
    p.dtype = "fp32";
    cr_expect(library_configuration_of(&library, &p) == NULL);
}

Test(library, damaged_configurations_are_named)
{
    static const char *const damaged[] = {
        CONFIGURATIONS("{\"m_most\": 64, \"tile\": [64, 32], \"stages\": 3}"),       /* two sides */
        CONFIGURATIONS("{\"m_most\": 64, \"tile\": [64, 32, 100], \"stages\": 3}"),  /* no multiple of 16 */
        CONFIGURATIONS("{\"m_most\": 64, \"tile\": [64, 32, 64], \"stages\": 1}"),   /* nothing ahead */
        CONFIGURATIONS("{\"m_most\": 64, \"tile\": [64, 32, 64], \"stages\": 2}, {\"m_most\": 64, \"tile\": [64, 32, 64], \"stages\": 2}"),
        CONFIGURATIONS(""),
    };
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        struct library_profile library;
        struct sim_error error = { 0 };
        cr_expect(eq(int, read_with_menu(damaged[i], "", &library, &error), SIM_BAD_PROFILE), "%s", damaged[i]);
        cr_expect(strstr(error.text, "configuration") != NULL, "%s", error.text);
    }
}

#define TILES(list) "\"tiles\": {\"source\": \"s\", \"list\": [" list "]}, "

/* The kernels a library is known to hold, as gemm/mm takes them; of other widths it has none. */
Test(library, its_kernels_become_the_products_tiles)
{
    struct library_profile library;
    struct sim_error error = { 0 };
    struct kernel_product p = square;
    char text[64];
    cr_assert(eq(int, read_with_menu(TILES("[256, 128, 64, 2, 1, 1], [32, 64, 128, 3, 0, 0]"), "", &library, &error), SIM_OK), "%s", error.text);
    cr_assert(library_tiles_text(&library, &p, text, sizeof text));
    cr_expect(eq(str, text, "256:128:64:2:1:1:32:64:128:3:0:0"));
    cr_expect(not(library_tiles_text(&library, &p, text, 20)), "no room");
    p.dtype = "fp32";
    cr_expect(not(library_tiles_text(&library, &p, text, sizeof text)));
    cr_assert(eq(int, read_text("", &library, &error), SIM_OK));
    cr_expect(not(library_tiles_text(&library, &square, text, sizeof text)), "a library of no tiles");
    static const char *const damaged[] = { TILES(""), TILES("[256, 128, 64, 2, 1]"), TILES("[256, 128, 64, 1, 1, 1]"), TILES("[8, 128, 64, 2, 1, 1]"),
                                           TILES("[256, 128, 64, 2.5, 1, 1]"), TILES("[256, 128, 64, 2, 33, 1]"), "\"tiles\": [], " };
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        cr_expect(eq(int, read_with_menu(damaged[i], "", &library, &error), SIM_BAD_PROFILE), "%s", damaged[i]);
        cr_expect(strstr(error.text, "tiles") != NULL || strstr(error.text, "object") != NULL, "%s", error.text);
    }
}

#define KERNELS(entries) "\"kernels\": [" entries "], "
#define SETUP(value) "\"setup_cycles\": {\"value\": " value ", \"unit\": \"cycle\", \"low\": 100, \"high\": 900, \"kind\": \"fitted\", \"source\": \"s\"}"

/* A kernel is launched as its library has it, and by its whole name. */
Test(library, a_kernel_is_known_by_its_whole_name)
{
    struct library_profile library;
    struct sim_error error = { 0 };
    cr_assert(eq(int, read_with_menu(KERNELS("{\"kernel\": \"attention/sdpa_bwd\", \"params\": \"grid=tiles\", \"source\": \"s\", " SETUP("500") "}"), "",
                                     &library, &error), SIM_OK), "%s", error.text);
    const struct library_kernel *found = library_kernel_of(&library, "attention", "sdpa_bwd");
    cr_assert(found != NULL);
    cr_expect(eq(str, (char *)found->params, "grid=tiles"));
    cr_expect(eq(dbl, found->setup_cycles, 500));
    cr_expect(eq(dbl, found->low, 100));
    cr_expect(eq(dbl, found->high, 900));
    cr_expect(library_kernel_of(&library, "attention", "sdpa_fwd") == NULL);
    cr_expect(library_kernel_of(&library, "attention", "sdpa_bwd2") == NULL);
    cr_expect(library_kernel_of(&library, "atten", "sdpa_bwd") == NULL);
    static const char *const damaged[][2] = {
        { KERNELS("{\"kernel\": \"a/b\", \"params\": \"x=1\"}"), "source" },
        { KERNELS("{\"kernel\": \"a/b\", \"params\": \"x=1\", \"source\": \"s\", \"grid\": 1}"), "'grid'" },
        { KERNELS("{\"kernel\": \"a/b\", \"params\": \"x=1\", \"source\": \"s\", " SETUP("70000") "}"), "setup_cycles" },
        { "\"kernels\": {}, ", "'kernels'" },
    };
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        cr_expect(eq(int, read_with_menu(damaged[i][0], "", &library, &error), SIM_BAD_PROFILE), "%s", damaged[i][0]);
        cr_expect(strstr(error.text, damaged[i][1]) != NULL, "%s", error.text);
    }
}

/* What intervals draw from: the range of each class's efficiency, by itself. */
Test(library, a_class_keeps_the_range_of_its_efficiency)
{
    struct library_profile library;
    struct sim_error error = { 0 };
    cr_assert(eq(int, read_text("{\"name\": \"a\", " EFFICIENCY("0.2") "}, {\"name\": \"b\", " EFFICIENCY("0.3") "}", &library, &error),
                 SIM_OK), "%s", error.text);
    for (int i = 0; i < 2; i++) {
        cr_expect(eq(dbl, library.classes[i].low, 0.1));
        cr_expect(eq(dbl, library.classes[i].high, 1));
        cr_expect(eq(int, library.classes[i].kind, PROFILE_FITTED));
    }
    cr_expect(eq(sz, library.kinds.count[PROFILE_FITTED], 2));
}

Test(library, a_table_names_its_library_and_a_device_has_one_of_its_own)
{
    struct library_profile library;
    struct sim_error error = { 0 };
    cr_assert(eq(int, read_text("", &library, &error), SIM_OK), "%s", error.text);
    struct library_set set = { 1, &library };
    cr_expect(library_set_find(&set, "lib", "other") == &library);
    cr_expect(library_set_find(&set, NULL, "chip") == &library);
    cr_expect(library_set_find(&set, NULL, "other") == NULL);
    cr_expect(library_set_find(&set, "none", "chip") == NULL, "a named library is no other");
    cr_expect(library_set_find(NULL, NULL, "chip") == NULL);
}

Test(library, damage_is_named)
{
    struct library_profile library;
    struct sim_error error = { 0 };
    cr_expect(eq(int, read_text("{\"name\": \"x\"}", &library, &error), SIM_BAD_PROFILE));
    cr_expect(strstr(error.text, "efficiency") != NULL, "%s", error.text);
    cr_expect(eq(int, read_text("{\"name\": \"x\", \"side\": 3, " EFFICIENCY("0.5") "}", &library, &error), SIM_BAD_PROFILE));
    cr_expect(strstr(error.text, "'side'") != NULL, "%s", error.text);
    cr_expect(eq(int, read_text("{\"name\": \"x\", \"k_most\": -1, " EFFICIENCY("0.5") "}", &library, &error), SIM_BAD_PROFILE));
    cr_expect(strstr(error.text, "k_most") != NULL, "%s", error.text);
    cr_expect(eq(int, read_text("{\"name\": \"x\", " EFFICIENCY("1.5") "}", &library, &error), SIM_BAD_PROFILE), "better than the best tile");
    static const char *const menus[][2] = { { "\"menu\": {\"tiles\": [[128, 128], [256, 256]], " FILLED("0.5") "}, ", "smaller than the one before" },
                                            { "\"menu\": {\"tiles\": [256], " FILLED("0.5") "}, ", "[long, short]" },
                                            { "\"menu\": {\"tiles\": [[128, 256]], " FILLED("0.5") "}, ", "[long, short]" },
                                            { "\"menu\": {\"tiles\": [[256, 128, -1]], " FILLED("0.5") "}, ", "largest K" },
                                            { "\"menu\": {\"tiles\": [[256, 128, 64, 2]], " FILLED("0.5") "}, ", "[long, short]" },
                                            { "\"menu\": {\"tiles\": [], " FILLED("0.5") "}, ", "1 to 8 pairs" },
                                            { "\"menu\": {\"tiles\": [[256, 256]]}, ", "'filled'" },
                                            { "\"menu\": {\"tiles\": [[256, 256]], \"sides\": 1, " FILLED("0.5") "}, ", "'sides'" },
                                            { "\"menu\": {\"tiles\": [[256, 256]], " FILLED("1.5") "}, ", "filled" } };
    for (size_t i = 0; i < sizeof menus / sizeof menus[0]; i++) {
        cr_expect(eq(int, read_with_menu(menus[i][0], "", &library, &error), SIM_BAD_PROFILE), "%s", menus[i][0]);
        cr_expect(strstr(error.text, menus[i][1]) != NULL, "%s", error.text);
    }
}

Test(library, shipped_libraries_read)
{
    static const char *const names[] = { "aiter_asm", "aiter_opus", "cublas", "flash_attention4", "hipblaslt", "triton_gfx950" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct library_profile library;
        struct sim_error error = { 0 };
        char path[512];
        snprintf(path, sizeof path, "%s/devices/libraries/%s.json", SOURCE_DIR, names[i]);
        cr_expect(eq(int, library_profile_read(path, &library, &error), SIM_OK), "%s", error.text);
        cr_expect(eq(str, library.name, (char *)names[i]));
    }
}
