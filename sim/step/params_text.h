/* A kernel's parameters as text, "key=value;key=value". */
#ifndef SIM_STEP_PARAMS_TEXT_H
#define SIM_STEP_PARAMS_TEXT_H

/* `params` (NULL: none) with those of `defaults` whose keys it does not name put behind, in their order. The caller frees. */
char *params_with_defaults(const char *params, const char *defaults);

#endif
