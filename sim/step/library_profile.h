/* What a vendor's library makes of a kernel (how it is launched) and of a matrix product, against the selector's tile (devices/libraries/NAME.json), read off the
 * library's own files or fitted on tables, never by shape. Libraries pick from a menu that was built for large products: the largest tile whose workgroups fill a
 * share of the units, K not split, which leaves others idle for long; narrow products and those that no tile of the menu fills get
 * the selector's tile, at an efficiency by class of shape. */
#ifndef SIM_STEP_LIBRARY_PROFILE_H
#define SIM_STEP_LIBRARY_PROFILE_H
#include "sim/core/status.h"
#include "sim/step/value_table.h"
#include "workloads/kernels/kernel.h"

struct library_class {
    char name[64];
    char dtypes[32], trans[16];   /* "bf16|fp16"; "": any */
    double side_least, side_most; /* of M and N, the smaller */
    double n_most;
    double k_least, k_most;
    double fill_least, fill_below; /* units that large tiles keep busy, of the rounds they take, 0..1 */
    double multiple;               /* N is no multiple of it; 0: whatever N is */
    double efficiency;             /* of the selector's rate, 0..1 */
    double low, high;              /* of the efficiency */
    enum profile_kind kind;
    uint64_t source; /* hash of its text */
};

/* A configuration of a library that chooses by rows alone, as its own file has it: K is not split. */
struct library_configuration {
    double m_most;                /* rows up to which it holds */
    uint32_t m, n, k, stages;     /* tile, and steps of operands held at once */
};

/* A kernel of the library that is launched in a way of its own: parameters that hold where the caller gives none. */
struct library_kernel {
    char kernel[64], params[64]; /* "suite/kernel"; "k=v;k=v" */
    double setup_cycles;         /* of a workgroup before its first load; 0: not given */
    double low, high;
    enum profile_kind kind;
};

#define LIBRARY_TILES_MAX 40

/* One of the kernels that a library is known to hold: its tile, steps of operands held at once, parts of K, workgroups a unit
 * (split, resident 0: any). Who tunes it runs them all and keeps the best. */
struct library_tile {
    uint32_t m, n, k, stages, split, resident;
};

struct library_profile {
    char name[32], title[128];
    size_t table_count, device_count;
    char tables[16][32];  /* library= of tables that it speaks for */
    char devices[16][32]; /* whose products are its own where no library is named */
    double large_tile;    /* rows and columns of its large tiles; `fill` of classes is counted in them */
    struct {
        size_t tile_count;   /* 0: no menu */
        uint32_t tiles[8][2]; /* long and short side, largest first; the long one lies along the product's */
        double k_most[8];    /* longest K for which the tile is known to be taken, unsplit; INFINITY: any */
        double side_least;   /* of M and N, the smaller: below it the selector's tile */
        double filled;       /* share of the units that a tile's workgroups must fill */
        double low, high;    /* of `filled` */
        enum profile_kind kind;
    } menu;
    size_t configuration_count; /* of 16-bit operands; 0: it has a menu, or the selector's tile */
    struct library_configuration configurations[16]; /* by m_most, rising */
    size_t tile_count; /* of 16-bit operands; before configurations and menu */
    struct library_tile tiles[LIBRARY_TILES_MAX];
    size_t kernel_count;
    struct library_kernel kernels[8];
    struct value_kinds kinds;
    size_t class_count;
    struct library_class classes[16]; /* the first that holds counts */
};

struct library_set {
    size_t count;
    struct library_profile *libraries; /* [count], owned */
};

enum sim_status library_profile_read(const char *path, struct library_profile *library, struct sim_error *error);
/* All of devices/libraries. */
enum sim_status library_set_read(struct library_set *set, struct sim_error *error);
void library_set_finish(struct library_set *set); /* zeroed memory is allowed */

/* The library of a table's library=, or of a device where `table` is NULL; NULL: none, every product runs the selector's tile. */
struct library_profile *library_set_find(const struct library_set *set, const char *table, const char *device);

/* The first tile from `from` on in the menu that the product fills: its place in the menu, or tile_count where none is. Sides
 * beyond the product are halved. */
size_t library_menu_tile(const struct library_profile *library, double units, const struct kernel_product *product, size_t from,
                         uint32_t *tile_m, uint32_t *tile_n);

/* The library's kernels as the parameter `tiles` of gemm/mm has them; false: none, or operands of another width. */
bool library_tiles_text(const struct library_profile *library, const struct kernel_product *product, char *text, size_t capacity);

/* How the library launches "suite/kernel"; NULL: as the kernel's own program does. */
const struct library_kernel *library_kernel_of(const struct library_profile *library, const char *suite, const char *kernel);

/* The first configuration that holds the product's rows; NULL: none, or operands of another width. */
const struct library_configuration *library_configuration_of(const struct library_profile *library, const struct kernel_product *product);

/* The class that a product falls in on a chip of `units`; NULL: as good as the selector's. */
const struct library_class *library_class_of(const struct library_profile *library, double units,
                                             const struct kernel_product *product);

#endif
