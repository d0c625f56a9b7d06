# `ninja linkcheck`: each module alone, whole, against only what the picture allows. Plain static linking does not notice an upward
# call (the symbol arrives with some other library); `-z defs` over the whole archive does.
add_custom_target(linkcheck)
file(WRITE ${PROJECT_BINARY_DIR}/gen/linkcheck.cpp "// No code: the module's archive is the content.\n")

function(gputrain_link_check module)
  add_library(linkcheck_${module} SHARED EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/gen/linkcheck.cpp)
  set_target_properties(linkcheck_${module} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/linkcheck)
  target_link_libraries(linkcheck_${module} PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,gp_${module}>)
  target_link_options(linkcheck_${module} PRIVATE -Wl,-z,defs)
  add_dependencies(linkcheck linkcheck_${module})
endfunction()

get_property(modules GLOBAL PROPERTY GPUTRAIN_MODULES)
foreach(module IN LISTS modules)
  gputrain_link_check(${module})
endforeach()
