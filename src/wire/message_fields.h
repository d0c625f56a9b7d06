#pragma once
// The one list of every message: its number, name and fields. The codec's both directions walk it; WIRE.md describes it
// for people.
#include <tuple>

#include "wire/messages.h"

namespace gputrain::wire {

template <class M, class T>
struct Field {
  const char* name;
  T M::*member;
};
template <class M, class T>
constexpr Field<M, T> field(const char* name, T M::*member) {
  return {name, member};
}

// Nested objects.
constexpr auto fields_of(const WireError*) {
  using M = WireError;
  return std::tuple(field("kind", &M::kind), field("message", &M::message), field("where", &M::where),
                    field("hint", &M::hint), field("culprit", &M::culprit));
}
constexpr auto fields_of(const ProgressSnapshot*) {
  using M = ProgressSnapshot;
  return std::tuple(field("step", &M::step), field("phase", &M::phase), field("collectives", &M::collectives));
}
constexpr auto fields_of(const SlotAssignment*) {
  using M = SlotAssignment;
  return std::tuple(field("rank", &M::rank), field("local_rank", &M::local_rank), field("device", &M::device),
                    field("threads", &M::threads));
}
constexpr auto fields_of(const ResumeRequest*) {
  using M = ResumeRequest;
  return std::tuple(field("mode", &M::mode), field("path", &M::path));
}

// Agent -> controller.
constexpr auto fields_of(const AgentHello*) {
  using M = AgentHello;
  return std::tuple(field("version", &M::version), field("pid", &M::pid), field("host", &M::host),
                    field("cores", &M::cores), field("gpus", &M::gpus), field("boot_id", &M::boot_id));
}
constexpr auto fields_of(const Listening*) {
  using M = Listening;
  return std::tuple(field("attempt", &M::attempt), field("address", &M::address), field("port", &M::port),
                    field("problem", &M::problem));
}
constexpr auto fields_of(const RankStarted*) {
  using M = RankStarted;
  return std::tuple(field("attempt", &M::attempt), field("rank", &M::rank), field("pid", &M::pid));
}
constexpr auto fields_of(const RankReady*) {
  using M = RankReady;
  return std::tuple(field("attempt", &M::attempt), field("rank", &M::rank), field("ready", &M::ready));
}
constexpr auto fields_of(const RankError*) {
  using M = RankError;
  return std::tuple(field("attempt", &M::attempt), field("rank", &M::rank), field("error", &M::error),
                    field("progress", &M::progress));
}
constexpr auto fields_of(const RankRecord*) {
  using M = RankRecord;
  return std::tuple(field("attempt", &M::attempt), field("rank", &M::rank), field("record", &M::record));
}
constexpr auto fields_of(const RankSync*) {
  using M = RankSync;
  return std::tuple(field("attempt", &M::attempt), field("rank", &M::rank), field("id", &M::id));
}
constexpr auto fields_of(const RankDone*) {
  using M = RankDone;
  return std::tuple(field("attempt", &M::attempt), field("rank", &M::rank), field("done", &M::done));
}
constexpr auto fields_of(const RankExited*) {
  using M = RankExited;
  return std::tuple(field("attempt", &M::attempt), field("rank", &M::rank), field("pid", &M::pid),
                    field("code", &M::code), field("signal", &M::signal), field("killed_by_us", &M::killed_by_us),
                    field("oom_killed", &M::oom_killed), field("exec_errno", &M::exec_errno),
                    field("progress", &M::progress), field("log_path", &M::log_path), field("log_tail", &M::log_tail),
                    field("unix_micros", &M::unix_micros));
}
constexpr auto fields_of(const AgentNotice*) {
  return std::tuple(field("reason", &AgentNotice::reason));
}

// Controller -> agent (some go on to the workers).
constexpr auto fields_of(const Listen*) {
  using M = Listen;
  return std::tuple(field("attempt", &M::attempt), field("address", &M::address), field("lease_ms", &M::lease_ms));
}
constexpr auto fields_of(const Start*) {
  using M = Start;
  return std::tuple(field("attempt", &M::attempt), field("run_id", &M::run_id), field("world_size", &M::world_size),
                    field("store_address", &M::store_address), field("store_port", &M::store_port),
                    field("resume", &M::resume), field("plan", &M::plan), field("slots", &M::slots),
                    field("worker", &M::worker), field("group_rank", &M::group_rank), field("lease_ms", &M::lease_ms));
}
constexpr auto fields_of(const Go*) {
  return std::tuple(field("attempt", &Go::attempt));
}
constexpr auto fields_of(const Stop*) {
  using M = Stop;
  return std::tuple(field("attempt", &M::attempt), field("reason", &M::reason), field("grace_ms", &M::grace_ms));
}
constexpr auto fields_of(const Kill*) {
  return std::tuple(field("attempt", &Kill::attempt));
}
constexpr auto fields_of(const Release*) {
  return std::tuple(field("attempt", &Release::attempt));
}
constexpr auto fields_of(const Pause*) {
  return std::tuple();
}
constexpr auto fields_of(const Continue*) {
  return std::tuple();
}
constexpr auto fields_of(const Credit*) {
  return std::tuple(field("bytes", &Credit::bytes));
}
constexpr auto fields_of(const Synced*) {
  using M = Synced;
  return std::tuple(field("attempt", &M::attempt), field("rank", &M::rank), field("id", &M::id));
}
constexpr auto fields_of(const Bye*) {
  return std::tuple();
}
constexpr auto fields_of(const Heartbeat*) {
  return std::tuple(field("sequence", &Heartbeat::sequence));
}

// Agent <-> worker.
constexpr auto fields_of(const Assign*) {
  using M = Assign;
  return std::tuple(field("attempt", &M::attempt), field("run_id", &M::run_id), field("rank", &M::rank),
                    field("world_size", &M::world_size), field("local_rank", &M::local_rank),
                    field("local_world_size", &M::local_world_size), field("device", &M::device),
                    field("threads", &M::threads), field("store_address", &M::store_address),
                    field("store_port", &M::store_port), field("store_fd", &M::store_fd), field("resume", &M::resume),
                    field("plan", &M::plan));
}
constexpr auto fields_of(const WorkerHello*) {
  return std::tuple(field("version", &WorkerHello::version), field("pid", &WorkerHello::pid));
}
constexpr auto fields_of(const Ready*) {
  return std::tuple(field("body", &Ready::body));
}
constexpr auto fields_of(const WorkerError*) {
  return std::tuple(field("error", &WorkerError::error));
}
constexpr auto fields_of(const Record*) {
  return std::tuple(field("json", &Record::json));
}
constexpr auto fields_of(const Sync*) {
  return std::tuple(field("id", &Sync::id));
}
constexpr auto fields_of(const Done*) {
  return std::tuple(field("body", &Done::body));
}

// Numbers are never re-used; in the order of Message.
struct TypeRow {
  uint16_t type;
  std::string_view name;
};
inline constexpr TypeRow kTypes[] = {
    {1, "AgentHello"},   {2, "Listening"},  {3, "RankStarted"}, {4, "RankReady"},    {5, "RankError"},
    {6, "RankRecord"},   {7, "RankSync"},   {8, "RankDone"},    {9, "RankExited"},   {10, "AgentNotice"},
    {32, "Listen"},      {33, "Start"},     {34, "Go"},         {35, "Stop"},        {36, "Kill"},
    {37, "Release"},     {38, "Pause"},     {39, "Continue"},   {40, "Credit"},      {41, "Synced"},
    {42, "Bye"},         {43, "Heartbeat"}, {64, "Assign"},     {80, "WorkerHello"}, {81, "Ready"},
    {82, "WorkerError"}, {83, "Record"},    {84, "Sync"},       {85, "Done"},
};
static_assert(std::size(kTypes) == std::variant_size_v<Message>);

}  // namespace gputrain::wire
