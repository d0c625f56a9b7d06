#include "launch/controller.h"

#include "launch/controller_run.h"

namespace gputrain {

Outcome run_controller(const ControllerOptions& options) {
  return ControllerRun(options).run();
}

}  // namespace gputrain
