# Compiler, linker and ccache choices shared by every target.
#
# -fPIC everywhere (executables too) so that one precompiled header serves libraries, tests and programs:
# GCC refuses a PCH whose code model differs from the translation unit's.
# -Wrestrict, -Wstringop-overflow, -Wstringop-overread, -Warray-bounds: false positives of g++ 12 on operator+ of std::string.
add_compile_options(-fPIC -Wall -Wextra -Wno-unused-parameter -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
# nlohmann-json, spdlog: system packages, found through Config files. _GLIBCXX_ASSERTIONS costs nothing measurable in the
# core half; LibTorch is compiled without it, which is ABI-compatible.
find_program(GPUTRAIN_CCACHE ccache)
if(GPUTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${GPUTRAIN_CCACHE})
endif()
find_program(GPUTRAIN_MOLD mold)
find_program(GPUTRAIN_LLD ld.lld)
if(GPUTRAIN_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(GPUTRAIN_LLD)
  add_link_options(-fuse-ld=lld)
endif()
