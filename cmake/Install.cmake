# `cmake --install`: a tree that runs. The worker finds LibTorch by RPATH where it was built against; GPUTRAIN_BUNDLE_LIBTORCH=ON
# copies the shared objects a CPU rank needs into lib/ beside it instead.
include(GNUInstallDirs)
option(GPUTRAIN_BUNDLE_LIBTORCH "Install LibTorch's CPU libraries too" OFF)
if(GPUTRAIN_BUNDLE_LIBTORCH)
  set(rpath "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/gputrain")
  install(DIRECTORY ${GPUTRAIN_TORCH_ROOT}/lib/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/gputrain FILES_MATCHING
          PATTERN "libc10.so" PATTERN "libtorch_cpu.so" PATTERN "libgomp*")
  install(DIRECTORY ${GPUTRAIN_TORCH_ROOT}/../nvidia/cu13/lib/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/gputrain FILES_MATCHING
          PATTERN "libcudart.so*" PATTERN "libcupti.so*")
else()
  set(rpath "${GPUTRAIN_TORCH_ROOT}/lib")
endif()
if(TARGET gputrain-worker)
  set_target_properties(gputrain-worker PROPERTIES INSTALL_RPATH "${rpath}")
  install(TARGETS gputrain gputrain-worker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET gputrain_cuda)
  set_target_properties(gputrain_cuda PROPERTIES INSTALL_RPATH "${GPUTRAIN_TORCH_ROOT}/lib")
  install(TARGETS gputrain_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# For plug-ins: the public headers, and what find_package(gputrain) reads.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/gputrain DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/cmake/gputrain-config.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gputrain)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DATADIR}/gputrain)
