/* Text from outside (names in traces, paths) made fit to be written: what is not UTF-8 becomes '?' byte by byte, so that documents
 * stay readable, and for terminals control characters too, which would move the cursor or end the line. A leaf of sim/core. */
#ifndef SIM_CORE_PRINTABLE_H
#define SIM_CORE_PRINTABLE_H
#include <stdbool.h>
#include <stddef.h>

/* Length of the UTF-8 sequence at `s`, 0 when it is not valid (overlong, surrogate, beyond U+10FFFF). */
size_t utf8_length(const unsigned char *s);

bool text_is_printable(const char *text);
void text_make_utf8(char *text);      /* in place */
void text_make_printable(char *text); /* UTF-8 without control characters: line ends and tabs become blanks, others '?' */

#endif
