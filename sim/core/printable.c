#include "sim/core/printable.h"

size_t utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80) {
        return 1;
    }
    size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xed && s[1] > 0x9f;
    bool beyond = s[0] == 0xf4 && s[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : length;
}

/* At the start of a text. */
static bool is_control(const char *text)
{
    unsigned char c = (unsigned char)text[0];
    return c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text[1] < 0xa0);
}

bool text_is_printable(const char *text)
{
    for (size_t length; *text != '\0'; text += length) {
        length = utf8_length((const unsigned char *)text);
        if (length == 0 || is_control(text)) {
            return false;
        }
    }
    return true;
}

static void mend(char *text, bool controls_too)
{
    for (size_t length; *text != '\0'; text += length) {
        length = utf8_length((const unsigned char *)text);
        bool broken = length == 0;
        length += broken;
        if (broken || (controls_too && is_control(text))) {
            bool blank = *text == '\n' || *text == '\r' || *text == '\t';
            for (size_t i = 0; i < length; i++) {
                text[i] = blank ? ' ' : '?';
            }
        }
    }
}

void text_make_utf8(char *text)
{
    mend(text, false);
}

void text_make_printable(char *text)
{
    mend(text, true);
}
