#include "studies/store.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORE_VERSION 1
#define STORE_APPLICATION 0x72636b6e /* "rckn" */

/* `seen` is what the file holds; a point is in the file as soon as its transaction is committed, and in `seen` right after. */
struct store {
    sqlite3 *database;
    sqlite3_stmt *insert, *select;
    const struct study *study;
    char *path;
    int lock; /* held open: the lock goes with it */
    bool *seen;
    size_t count;
    bool finished;
};

static enum sim_status broken(const struct store *store, struct sim_error *error)
{
    return sim_fail(error, SIM_BAD_FILE, "%s: %s", store->path, sqlite3_errmsg(store->database));
}

static enum sim_status run(const struct store *store, const char *sql, struct sim_error *error)
{
    return sqlite3_exec(store->database, sql, NULL, NULL, NULL) == SQLITE_OK ? SIM_OK : broken(store, error);
}

/* ---- layout */

static void schema_text(char *text, size_t capacity)
{
    size_t used = (size_t)snprintf(
        text, capacity,
        "PRAGMA application_id=%d;PRAGMA user_version=%d;BEGIN;"
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
        "CREATE TABLE metric(name TEXT PRIMARY KEY, unit TEXT NOT NULL, better INTEGER NOT NULL, summary TEXT NOT NULL) STRICT, "
        "WITHOUT ROWID;"
        "CREATE TABLE point(id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, device TEXT NOT NULL, node TEXT, "
        "settings TEXT NOT NULL, status TEXT NOT NULL CHECK(status IN ('feasible','infeasible')), reason TEXT",
        STORE_APPLICATION, STORE_VERSION);
    for (int m = 0; m < METRICS; m++) {
        used += (size_t)snprintf(text + used, capacity - used, ", %s REAL", metric_text((enum metric)m));
    }
    snprintf(text + used, capacity - used,
             ", pareto INTEGER NOT NULL DEFAULT 0, pareto_device INTEGER NOT NULL DEFAULT 0) STRICT;");
}

static enum sim_status put_meta(struct store *store, const char *key, const char *value, struct sim_error *error)
{
    char *sql = sqlite3_mprintf("INSERT INTO meta VALUES(%Q,%Q);", key, value);
    enum sim_status status = run(store, sql, error);
    sqlite3_free(sql);
    return status;
}

static enum sim_status create(struct store *store, const struct store_identity *identity, struct sim_error *error)
{
    char text[4096];
    schema_text(text, sizeof text);
    enum sim_status status = run(store, text, error);
    for (int m = 0; status == SIM_OK && m < METRICS; m++) {
        char *sql = sqlite3_mprintf("INSERT INTO metric VALUES(%Q,%Q,%d,%Q);", metric_text((enum metric)m),
                                    metric_unit((enum metric)m), metric_better((enum metric)m), metric_summary((enum metric)m));
        status = run(store, sql, error);
        sqlite3_free(sql);
    }
    const char *const pairs[][2] = { { "schema", "reckon.sweep/1" }, { "program", identity->program },
                                     { "study", identity->study },   { "options", identity->options },
                                     { "basis", identity->basis },   { "state", "running" } };
    for (size_t i = 0; status == SIM_OK && i < sizeof pairs / sizeof pairs[0]; i++) {
        status = put_meta(store, pairs[i][0], pairs[i][1], error);
    }
    return status == SIM_OK ? run(store, "COMMIT;", error) : status;
}

/* ---- what is there */

static int number_of(struct store *store, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    int value = -1;
    if (sqlite3_prepare_v2(store->database, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
        value = sqlite3_column_int(statement, 0);
    }
    sqlite3_finalize(statement);
    return value;
}

static char *meta_of(struct store *store, const char *key)
{
    sqlite3_stmt *statement = NULL;
    char *value = NULL;
    if (sqlite3_prepare_v2(store->database, "SELECT value FROM meta WHERE key=?", -1, &statement, NULL) == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
        if (sqlite3_step(statement) == SQLITE_ROW) {
            value = strdup((const char *)sqlite3_column_text(statement, 0));
        }
    }
    sqlite3_finalize(statement);
    return value;
}

static enum sim_status same(struct store *store, const char *key, const char *what, const char *wanted, bool show,
                            struct sim_error *error)
{
    char *value = meta_of(store, key);
    enum sim_status status = SIM_OK;
    if (value == NULL || strcmp(value, wanted) != 0) {
        status = show ? sim_fail(error, SIM_BAD_ARGUMENT, "%s: is of another %s (%.80s; this is %.80s): finish it with that one, or give another --db",
                                 store->path, what, value != NULL ? value : "none", wanted)
                      : sim_fail(error, SIM_BAD_ARGUMENT, "%s: is of another %s: give another --db", store->path, what);
    }
    free(value);
    return status;
}

static enum sim_status check(struct store *store, const struct store_identity *identity, struct sim_error *error)
{
    int application = number_of(store, "PRAGMA application_id"), version = number_of(store, "PRAGMA user_version");
    if (application != STORE_APPLICATION) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: is no store of sweeps: give another --db", store->path);
    }
    if (version != STORE_VERSION) {
        return sim_fail(error, SIM_BAD_ARGUMENT, "%s: is a store of version %d, this program writes version %d: give another --db",
                        store->path, version, STORE_VERSION);
    }
    enum sim_status status = same(store, "program", "version of the program", identity->program, true, error);
    status = status == SIM_OK ? same(store, "study", "study, or of this one before it was changed", identity->study, false, error)
                              : status;
    status = status == SIM_OK ? same(store, "options", "choice of engines or seed", identity->options, true, error) : status;
    return status == SIM_OK
               ? same(store, "basis", "state of the input or of the profiles, which have changed since", identity->basis, false, error)
               : status;
}

static enum sim_status read_seen(struct store *store, struct sim_error *error)
{
    sqlite3_stmt *statement = NULL;
    size_t points = study_point_count(store->study);
    int step = SQLITE_DONE;
    char *state = meta_of(store, "state");
    store->finished = state != NULL && strcmp(state, "finished") == 0;
    free(state);
    if (sqlite3_prepare_v2(store->database, "SELECT id FROM point", -1, &statement, NULL) != SQLITE_OK) {
        return broken(store, error);
    }
    while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
        sqlite3_int64 id = sqlite3_column_int64(statement, 0);
        if (id >= 0 && (size_t)id < points) {
            store->seen[id] = true;
            store->count++;
        }
    }
    sqlite3_finalize(statement);
    return step == SQLITE_DONE ? SIM_OK : broken(store, error);
}

/* ---- opening */

static enum sim_status prepare(struct store *store, struct sim_error *error)
{
    char insert[1024], select[1024];
    size_t i = (size_t)snprintf(insert, sizeof insert, "INSERT INTO point VALUES(?,?,?,?,?,?,?");
    size_t s = (size_t)snprintf(select, sizeof select, "SELECT status, reason");
    for (int m = 0; m < METRICS; m++) {
        i += (size_t)snprintf(insert + i, sizeof insert - i, ",?");
        s += (size_t)snprintf(select + s, sizeof select - s, ", %s", metric_text((enum metric)m));
    }
    snprintf(insert + i, sizeof insert - i, ",0,0)");
    snprintf(select + s, sizeof select - s, " FROM point WHERE id=?");
    if (sqlite3_prepare_v2(store->database, insert, -1, &store->insert, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(store->database, select, -1, &store->select, NULL) != SQLITE_OK) {
        return broken(store, error);
    }
    return SIM_OK;
}

/* The lock is on the file itself, beside SQLite's own, and lasts as long as the store is open. */
static enum sim_status lock(struct store *store, struct sim_error *error)
{
    struct stat held, named;
    store->lock = open(store->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (store->lock < 0) {
        return sim_fail(error, SIM_BAD_FILE, "%s: cannot be opened: %s", store->path, strerror(errno));
    }
    if (flock(store->lock, LOCK_EX | LOCK_NB) != 0) {
        return sim_fail(error, SIM_BAD_FILE, "%s: another sweep is writing it: wait for it, or give another --db", store->path);
    }
    if (fstat(store->lock, &held) != 0 || stat(store->path, &named) != 0 || held.st_ino != named.st_ino) {
        return sim_fail(error, SIM_BAD_FILE, "%s: another sweep has just finished it: try again", store->path);
    }
    return SIM_OK;
}

enum sim_status store_open(const char *path, const struct study *study, const struct store_identity *identity,
                           struct store **out, struct sim_error *error)
{
    char temporary[4096];
    struct store *store = calloc(1, sizeof *store);
    *out = NULL;
    SIM_ASSERT(store != NULL, "no memory for a store");
    store->study = study;
    store->lock = -1;
    store->path = strdup(path);
    store->seen = calloc(study_point_count(study) + 1, sizeof *store->seen);
    SIM_ASSERT(store->path != NULL && store->seen != NULL, "no memory for a store");
    enum sim_status status = lock(store, error);
    if (status == SIM_OK) {
        snprintf(temporary, sizeof temporary, "%s.new", path); /* of a sweep that was killed at its very end */
        unlink(temporary);
        if (sqlite3_open_v2(path, &store->database, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) {
            status = broken(store, error);
        }
    }
    if (status == SIM_OK) {
        sqlite3_busy_timeout(store->database, 10000); /* readers look in and go */
        int tables = number_of(store, "SELECT count(*) FROM sqlite_master");
        status = tables < 0    ? sim_fail(error, SIM_BAD_ARGUMENT, "%s: is no store of sweeps: give another --db", path)
                 : tables == 0 ? create(store, identity, error)
                               : check(store, identity, error);
    }
    status = status == SIM_OK ? read_seen(store, error) : status;
    status = status == SIM_OK ? prepare(store, error) : status;
    if (status != SIM_OK) {
        store_close(store);
        return status;
    }
    *out = store;
    return SIM_OK;
}

void store_close(struct store *store)
{
    if (store != NULL) {
        sqlite3_finalize(store->insert);
        sqlite3_finalize(store->select);
        sqlite3_close(store->database);
        if (store->lock >= 0) {
            close(store->lock);
        }
        free(store->path);
        free(store->seen);
        free(store);
    }
}

void store_leave(struct store *store)
{
    close(store->lock);
    store->lock = -1;
}

bool store_has(const struct store *store, size_t point)
{
    return store->seen[point];
}

size_t store_count(const struct store *store)
{
    return store->count;
}

bool store_is_finished(const struct store *store)
{
    return store->finished;
}

/* ---- records */

enum sim_status store_put(struct store *store, const struct study_record *record, struct sim_error *error)
{
    char settings[STUDY_SETTINGS_MAX * 320], hash[24];
    struct study_point point;
    SIM_ASSERT(record->point < study_point_count(store->study) && !store->seen[record->point], "point %u twice", record->point);
    SIM_ASSERT(record->status != RECORD_ERROR, "point %u is no result", record->point);
    study_point_at(store->study, record->point, &point);
    study_point_text(&point, settings, sizeof settings);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)study_point_hash(&point));
    sqlite3_stmt *insert = store->insert;
    sqlite3_bind_int64(insert, 1, record->point);
    sqlite3_bind_text(insert, 2, hash, -1, SQLITE_STATIC);
    sqlite3_bind_text(insert, 3, point.device, -1, SQLITE_STATIC);
    if (point.node != NULL) {
        sqlite3_bind_text(insert, 4, point.node, -1, SQLITE_STATIC);
    }
    sqlite3_bind_text(insert, 5, settings, -1, SQLITE_STATIC);
    sqlite3_bind_text(insert, 6, record->status == RECORD_FEASIBLE ? "feasible" : "infeasible", -1, SQLITE_STATIC);
    if (record->status != RECORD_FEASIBLE) {
        sqlite3_bind_text(insert, 7, record->reason, -1, SQLITE_STATIC);
    }
    for (int m = 0; m < METRICS; m++) {
        if (isfinite(record->metric[m])) {
            sqlite3_bind_double(insert, 8 + m, record->metric[m]);
        }
    }
    int step = sqlite3_step(insert);
    sqlite3_reset(insert);
    sqlite3_clear_bindings(insert);
    if (step != SQLITE_DONE) {
        return broken(store, error);
    }
    store->seen[record->point] = true;
    store->count++;
    return SIM_OK;
}

enum sim_status store_get(struct store *store, size_t point, struct study_record *record, struct sim_error *error)
{
    sqlite3_stmt *select = store->select;
    struct study_point at;
    study_point_at(store->study, point, &at);
    study_record_begin(store->study, &at, point, record);
    sqlite3_bind_int64(select, 1, (sqlite3_int64)point);
    if (sqlite3_step(select) != SQLITE_ROW) {
        sqlite3_reset(select);
        return broken(store, error);
    }
    record->status = strcmp((const char *)sqlite3_column_text(select, 0), "feasible") == 0 ? RECORD_FEASIBLE : RECORD_INFEASIBLE;
    const char *reason = (const char *)sqlite3_column_text(select, 1);
    snprintf(record->reason, sizeof record->reason, "%s", reason != NULL ? reason : "");
    for (int m = 0; m < METRICS; m++) {
        record->metric[m] = sqlite3_column_type(select, 2 + m) == SQLITE_NULL ? NAN : sqlite3_column_double(select, 2 + m);
    }
    sqlite3_reset(select);
    return SIM_OK;
}

static enum sim_status write_fronts(struct store *store, const bool *front, const bool *device_front, size_t count,
                                    struct sim_error *error)
{
    sqlite3_stmt *update = NULL;
    enum sim_status status = run(store, "BEGIN; UPDATE point SET pareto=0, pareto_device=0;", error);
    if (status == SIM_OK && sqlite3_prepare_v2(store->database, "UPDATE point SET pareto=?, pareto_device=? WHERE id=?", -1, &update,
                                               NULL) != SQLITE_OK) {
        return broken(store, error);
    }
    for (size_t i = 0; status == SIM_OK && i < count; i++) {
        if (front[i] || device_front[i]) {
            sqlite3_bind_int(update, 1, front[i]);
            sqlite3_bind_int(update, 2, device_front[i]);
            sqlite3_bind_int64(update, 3, (sqlite3_int64)i);
            status = sqlite3_step(update) == SQLITE_DONE ? SIM_OK : broken(store, error);
            sqlite3_reset(update);
        }
    }
    sqlite3_finalize(update);
    status = status == SIM_OK ? run(store, "UPDATE meta SET value='finished' WHERE key='state';COMMIT;", error) : status;
    return status;
}

/* Whole and in order under another name, on the disk, then under its own: a kill in between leaves the old file, which is
 * finished the same way when the sweep is started again. */
enum sim_status store_finish(struct store *store, const bool *front, const bool *device_front, size_t count,
                             struct sim_error *error)
{
    char temporary[4096];
    enum sim_status status = write_fronts(store, front, device_front, count, error);
    if (status != SIM_OK) {
        return status;
    }
    snprintf(temporary, sizeof temporary, "%s.new", store->path);
    char *sql = sqlite3_mprintf("VACUUM INTO %Q;", temporary);
    status = run(store, sql, error);
    sqlite3_free(sql);
    int file = status == SIM_OK ? open(temporary, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        fsync(file);
        close(file);
    }
    if (status == SIM_OK && rename(temporary, store->path) != 0) {
        status = sim_fail(error, SIM_BAD_FILE, "%s: cannot be renamed to %s: %s", temporary, store->path, strerror(errno));
    }
    store->finished = status == SIM_OK;
    return status;
}
