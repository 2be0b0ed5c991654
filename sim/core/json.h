/* JSON documents under a few megabytes: profiles, studies, results. The one door to cJSON (json.c); traces go
 * through the streaming reader in workloads/trace instead. */
#ifndef SIM_CORE_JSON_H
#define SIM_CORE_JSON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sim/core/status.h"

struct json; /* opaque: one value; a tree owns its children */

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

/* ---- reading. Errors name the file and the line of the damage. Duplicate keys in an object are an error. */
enum sim_status json_read_file(const char *path, struct json **out, struct sim_error *error);
enum sim_status json_read_text(const char *text, const char *name_for_errors, struct json **out,
                               struct sim_error *error);
enum json_kind json_kind_of(const struct json *value);
const char *json_kind_text(enum json_kind kind);
size_t json_count(const struct json *value);                         /* children of an array or object, else 0 */
const struct json *json_at(const struct json *value, size_t index);  /* asserts index < count */
const char *json_key(const struct json *child);                      /* key of an object's child, else NULL */
uint32_t json_line(const struct json *value);                        /* of its key, or of itself; 0: built, not read */
const struct json *json_get(const struct json *object, const char *key); /* NULL when absent */
double json_number(const struct json *value);                        /* asserts the kind */
bool json_bool(const struct json *value);
const char *json_string(const struct json *value);                   /* borrowed; asserts the kind */

/* ---- writing. Numbers print with the fewest digits that read back equal; NaN and infinities are a bug (asserted). */
struct json *json_new_object(void);
struct json *json_new_array(void);
void json_set_string(struct json *object, const char *key, const char *value);
void json_set_number(struct json *object, const char *key, double value);
void json_set_integer(struct json *object, const char *key, int64_t value); /* |value| <= 2^53, asserted */
void json_set_bool(struct json *object, const char *key, bool value);
void json_set_null(struct json *object, const char *key);
void json_set(struct json *object, const char *key, struct json *child);     /* takes child; a key there is replaced */
struct json *json_child(struct json *object, const char *key);               /* to go on building it; NULL when absent */
void json_append(struct json *array, struct json *child);                    /* takes child */
void json_append_string(struct json *array, const char *value);
void json_append_number(struct json *array, double value);
char *json_print(const struct json *value, bool pretty); /* caller frees; same tree, same bytes */
void json_destroy(struct json *value);                   /* NULL is allowed */

#endif
