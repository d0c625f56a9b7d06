#include "spec/dry_run.h"

#include <algorithm>

#include "spec/fields.h"
#include "spec/shares.h"
#include "spec/yaml_text.h"
#include "util/text.h"

namespace gputrain {
namespace {

struct RankRow {
  int rank = 0;
  std::string host;
  std::string device;
  Range share;
  std::vector<int64_t> micro_batches;
};

std::vector<RankRow> rank_rows(const RunPlan& plan) {
  std::vector<RankRow> rows;
  const auto& hosts = plan.launch.hosts;
  for (size_t h = 0; h < hosts.size(); ++h) {
    for (int slot = 0; slot < hosts[h].slots; ++slot) {
      RankRow row;
      row.rank = static_cast<int>(rows.size());
      row.host = hosts[h].name + (hosts.size() > 1 ? " (agent " + std::to_string(h + 1) + ")" : "");
      row.device = hosts[h].gpus.empty() ? "cpu" : "cuda:" + std::to_string(hosts[h].gpus[slot]);
      row.share = share_of(plan.train.global_batch, row.rank, plan.launch.world_size);
      const int64_t micro_batch = plan.train.micro_batch > 0 ? plan.train.micro_batch : row.share.size();
      for (int64_t i = 0; i < micro_batch_count(row.share.size(), micro_batch); ++i) {
        row.micro_batches.push_back(micro_batch_range(row.share.size(), micro_batch, i).size());
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// "3 x 16 + 7"
std::string cuts_text(const std::vector<int64_t>& sizes) {
  const auto full = std::ranges::count(sizes, sizes.front());
  const std::string last = full == static_cast<int64_t>(sizes.size()) ? "" : " + " + std::to_string(sizes.back());
  return (full == 1 ? "" : std::to_string(full) + " x ") + std::to_string(sizes.front()) + last;
}

std::string rank_table(const RunPlan& plan) {
  std::vector<std::vector<std::string>> table = {
      {"rank", "host", "device", "threads", "samples", "of the batch", "micro-batches"}};
  for (const auto& row : rank_rows(plan)) {
    table.push_back({std::to_string(row.rank), row.host, row.device, std::to_string(plan.launch.omp_threads),
                     std::to_string(row.share.size()),
                     "[" + std::to_string(row.share.begin) + ", " + std::to_string(row.share.end) + ")",
                     cuts_text(row.micro_batches)});
  }
  return render_table(table);
}

std::string every_text(const Every& every) {
  if (every.never()) return "never";
  return every.length ? format_length(*every.length) : format_duration(*every.duration);
}

// What "auto" became.
std::string decided_text(const RunPlan& plan, const std::string& key) {
  std::vector<std::string> slots;
  slots.reserve(plan.launch.hosts.size());
  for (const auto& host : plan.launch.hosts) slots.push_back(std::to_string(host.slots));
  if (key == "launch.nproc_per_node") return join(slots, ", ");
  if (key == "launch.backend") return std::string(to_string(plan.launch.backend));
  if (key == "launch.omp_threads") return std::to_string(plan.launch.omp_threads);
  if (key == "data.workers") return std::to_string(plan.data.workers);
  if (key == "data.pin_memory") return plan.data.pin_memory ? "true" : "false";
  if (key == "train.micro_batch") {
    return std::to_string(largest_share(plan.train.global_batch, plan.launch.world_size)) + ", the whole share";
  }
  if (key == "evaluate.every") return every_text(plan.evaluate);
  if (key == "log.every") return every_text(plan.log);
  GP_CHECK(false, "no automatic value is known for " + key);
}

// Not every word "auto" is one: a run may be called so.
bool is_automatic(const Setting& setting) {
  const Field* field = find_field(setting.key);
  return setting.value == "auto" && field != nullptr && std::ranges::count(field->words, "auto") > 0;
}

std::string settings_table(const std::vector<Setting>& settings, const RunPlan& plan) {
  std::vector<std::vector<std::string>> table = {{"key", "from", "value"}};
  for (const auto& setting : settings) {
    std::string value = yaml_value(setting);
    if (is_automatic(setting)) value += " = " + decided_text(plan, setting.key);
    table.push_back({setting.key, setting.origin.brief(), std::move(value)});
  }
  return render_table(table);
}

Json settings_json(const Spec& spec) {
  Json list = Json::array();
  for (const auto& setting : spec.settings()) {
    list.push_back({{"key", setting.key}, {"value", setting.value}, {"origin", setting.origin.brief()}});
  }
  return list;
}

}  // namespace

std::string render_dry_run(const RunPlan& plan, const Spec& spec, const std::vector<Notice>& notices) {
  std::string text = plan.name + ": " + plural(plan.launch.world_size, "rank") + " on " +
                     plural(static_cast<int64_t>(plan.launch.hosts.size()), "agent") + ", " +
                     std::string(to_string(plan.launch.backend)) + ", a global batch of " +
                     plural(plan.train.global_batch, "sample") + "\noutput: " + plan.output + "\n\n";
  text += rank_table(plan);
  for (const auto& notice : notices) text += "\nnotice: " + notice.text;
  return text + (notices.empty() ? "\n" : "\n\n") + settings_table(spec.settings(), plan);
}

Json dry_run_json(const RunPlan& plan, const Spec& spec, const std::vector<Notice>& notices) {
  Json ranks = Json::array();
  for (const auto& row : rank_rows(plan)) {
    ranks.push_back({{"rank", row.rank},
                     {"host", row.host},
                     {"device", row.device},
                     {"threads", plan.launch.omp_threads},
                     {"begin", row.share.begin},
                     {"end", row.share.end},
                     {"micro_batches", row.micro_batches}});
  }
  Json listed = Json::array();
  for (const auto& notice : notices) listed.push_back({{"word", notice.word}, {"text", notice.text}});
  return {{"plan", to_json(plan)}, {"ranks", ranks}, {"notices", listed}, {"settings", settings_json(spec)}};
}

std::string render_chosen_settings(const Spec& spec, const RunPlan& plan) {
  std::vector<Setting> chosen;
  for (const auto& setting : spec.settings()) {
    if (is_automatic(setting) || setting.origin.kind != OriginKind::kDefault) chosen.push_back(setting);
  }
  return settings_table(chosen, plan);
}

}  // namespace gputrain
