# Writes OUTPUT, a header with the git commit of SOURCE and whether its tracked files differ from it. Run by
# every build, so that the answer is that of the compiled sources; the header is touched only when it changes.
find_program(GIT git)
set(COMMIT "unknown")
set(DIRTY "false")
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE ANSWER RESULT_VARIABLE STATUS
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(STATUS EQUAL 0)
    set(COMMIT ${ANSWER})
    execute_process(COMMAND ${GIT} -C ${SOURCE} status --porcelain --untracked-files=no OUTPUT_VARIABLE ANSWER
                    ERROR_QUIET)
    if(ANSWER)
      set(DIRTY "true")
    endif()
  endif()
endif()
set(TEXT "// Made by the build.
#define COPYLAB_GIT_COMMIT \"${COMMIT}\"
#define COPYLAB_GIT_DIRTY ${DIRTY}
")
set(OLD "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} OLD)
endif()
if(NOT OLD STREQUAL TEXT)
  file(WRITE ${OUTPUT} "${TEXT}")
endif()
