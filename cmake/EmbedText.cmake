# embed_text(OUTPUT file.c SYMBOL name FILES a b ...): `const char name[]` with the bytes of the files, one after another, and
# a zero behind them. Run by cmake -P while building, so that a changed file is embedded anew.
set(hex "")
string(REPLACE "," ";" files "${FILES}")
foreach(file IN LISTS files)
  file(READ ${file} piece HEX)
  string(APPEND hex "${piece}")
endforeach()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((0x[0-9a-f][0-9a-f],)(0x[0-9a-f][0-9a-f],)(0x[0-9a-f][0-9a-f],)(0x[0-9a-f][0-9a-f],)(0x[0-9a-f][0-9a-f],)(0x[0-9a-f][0-9a-f],)(0x[0-9a-f][0-9a-f],)(0x[0-9a-f][0-9a-f],))" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "extern const char ${SYMBOL}[];\nconst char ${SYMBOL}[] = {\n${bytes}0\n};\n")
