/* Damaged device files for tests: a shipped profile with the text of one value replaced. */
#ifndef TESTS_CORE_PROFILE_EDIT_H
#define TESTS_CORE_PROFILE_EDIT_H
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline char *profile_text(const char *device)
{
    char path[4096];
    snprintf(path, sizeof path, SOURCE_DIR "/devices/%s.json", device);
    FILE *file = fopen(path, "rb");
    cr_assert(file != NULL, "%s", path);
    char *text = calloc(1, 1 << 18);
    cr_assert(fread(text, 1, (1 << 18) - 1, file) > 0);
    fclose(file);
    return text;
}

/* Replace what stands between `from` (included) and the end of its line by `to`; `from` is looked for after `after`. */
static inline char *profile_replace_line(char *text, const char *after, const char *from, const char *to)
{
    char *section = strstr(text, after);
    cr_assert(section != NULL, "no %s", after);
    char *start = strstr(section, from);
    cr_assert(start != NULL, "no %s after %s", from, after);
    char *end = start + strcspn(start, "\n");
    size_t size_bytes = strlen(text) + strlen(to) + 1;
    char *edited = calloc(1, size_bytes);
    snprintf(edited, size_bytes, "%.*s%s%s", (int)(start - text), text, to, end);
    free(text);
    return edited;
}

/* Set the whole object of "section.key"; NULL removes the key. The last key of a section keeps no comma, so keys at the end
 * of a section cannot be edited this way: choose another. */
static inline char *profile_set(char *text, const char *section, const char *key, const char *object)
{
    char after[64], from[64], to[512];
    snprintf(after, sizeof after, "\n  \"%s\": {", section);
    snprintf(from, sizeof from, "\"%s\": ", key);
    snprintf(to, sizeof to, object == NULL ? "%s%s" : "\"%s\": %s,", object == NULL ? "" : key, object == NULL ? "" : object);
    return profile_replace_line(text, after, from, to);
}

/* A number with its unit, the range closed around it. */
static inline char *profile_set_number(char *text, const char *section, const char *key, const char *value, const char *unit)
{
    char object[256];
    snprintf(object, sizeof object,
             "{ \"value\": %s, \"unit\": \"%s\", \"low\": %s, \"high\": %s, \"kind\": \"spec\", \"source\": \"test\" }", value,
             unit, value, value);
    return profile_set(text, section, key, object);
}

/* Write to a new file; the caller removes it. Frees the text. */
static inline void profile_write(char *text, char path[64])
{
    snprintf(path, 64, "/tmp/reckon_profileXXXXXX");
    int descriptor = mkstemp(path);
    cr_assert(descriptor >= 0);
    FILE *file = fdopen(descriptor, "w");
    fputs(text, file);
    fclose(file);
    free(text);
}

#endif
