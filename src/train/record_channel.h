#pragma once
#include "util/json.h"

namespace gputrain {

// Where records go: to the controller, through the agent. Used by the training thread.
class RecordChannel {
 public:
  virtual ~RecordChannel() = default;
  // One record (monitor/record.h). Does not wait for anybody but a full socket.
  virtual void send(const Json& record) = 0;
  // Returns when every record sent so far is in events.jsonl: called before a checkpoint is committed, so that no
  // committed step lacks its records. Throws Error(kPeerLost) when the agent is gone.
  virtual void sync() = 0;
};

}  // namespace gputrain
