#include "spec/init.h"

#include <algorithm>
#include <vector>

#include "spec/describe_field.h"
#include "spec/yaml_text.h"
#include "util/text.h"

namespace gputrain {
namespace {

constexpr size_t kWidth = 96;

struct Example {
  std::string_view key;
  std::string_view value;
};

// What the defaults do not say: a small image classifier on Debian's package dataset-fashion-mnist.
constexpr Example kExamples[] = {
    {"name", "my-run"},
    {"model.name", "small_cnn"},
    {"data.train",
     "{format: idx, images: /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz,\n"
     "          labels: /usr/share/datasets/fashion-mnist/train-labels-idx1-ubyte.gz}"},
    {"data.val",
     "{format: idx, images: /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz,\n"
     "        labels: /usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz}"},
    {"data.transforms.train", "[random_horizontal_flip, to_tensor, {normalize: {mean: [0.2860], std: [0.3530]}}]"},
    {"data.transforms.val", "[to_tensor, {normalize: {mean: [0.2860], std: [0.3530]}}]"},
    {"train.epochs", "5"},
    {"train.global_batch", "256"},
    {"optimizer.lr", "1e-3"},
    {"checkpoint.keep_best", "accuracy"},
};

std::string example_of(std::string_view key, const std::string& fallback) {
  const auto found = std::ranges::find(kExamples, key, &Example::key);
  return found == std::end(kExamples) ? fallback : std::string(found->value);
}

std::string comment(std::string_view help, size_t indent) {
  const std::string start = std::string(indent, ' ') + "#";
  std::string out, line = start;
  for (const auto& word : split(help, ' ')) {
    if (line.size() > start.size() && line.size() + 1 + word.size() > kWidth) {
      out += line + "\n";
      line = start;
    }
    line += " " + word;
  }
  return out + line + "\n";
}

std::string argument_lines(CatalogKind kind, std::string_view name, const std::string& prefix, size_t indent) {
  std::string text;
  for (const auto& arg : find_entry(kind, name)->args) {
    text += comment(arg.help, indent);
    text += std::string(indent, ' ') + arg.name + ": " + example_of(prefix + arg.name, fallback_text(arg)) + "\n";
  }
  return text;
}

std::string field_lines(const Field& field, size_t indent) {
  const std::string key(field.key);
  const std::string word = key.substr(key.rfind('.') + 1);
  const std::string margin(indent, ' ');
  if (field.type == FieldType::kArguments) {
    const std::string model = example_of("model.name", "");
    return comment(field.help, indent) + margin + word + ":\n" +
           argument_lines(field.catalog_kind, model, key + ".", indent + 2);
  }
  const std::string value = example_of(field.key, fallback_text(field));
  std::string text = comment(field.help, indent);
  const bool listed = field.type == FieldType::kName || field.type == FieldType::kChoice;
  if (listed) text += comment("Expected: " + expected_text(field) + ".", indent);
  text += margin + word + ": " + (value == "runs/<name>" ? "runs/" + example_of("name", "") : value) + "\n";
  const bool inline_arguments =
      field.type == FieldType::kName && find_field(key.substr(0, key.find('.')) + ".args") == nullptr;
  if (inline_arguments && field.catalog_kind != CatalogKind::kMetric) {
    text += argument_lines(field.catalog_kind, value, key.substr(0, key.find('.') + 1), indent);
  }
  return text;
}

}  // namespace

std::string example_yaml() {
  std::string text = comment(
      "A gputrain spec: gputrain launch FILE trains it, gputrain explain KEY tells more about a key. Lines that "
      "show a default may be left out.",
      0);
  std::vector<std::string> open;
  for (const auto& field : fields()) {
    if (field.advanced) continue;
    std::vector<std::string> sections = split(field.key, '.');
    sections.pop_back();
    const auto differ = std::ranges::mismatch(open, sections);
    for (auto depth = static_cast<size_t>(differ.in1 - open.begin()); depth < sections.size(); ++depth) {
      const std::string section = join(std::span(sections).first(depth + 1), ".");
      text += (depth == 0 ? "\n" : "") + comment(section_help(section), 2 * depth) + std::string(2 * depth, ' ') +
              sections[depth] + ":\n";
    }
    if (sections.empty()) text += "\n";
    open = sections;
    text += field_lines(field, 2 * sections.size());
  }
  return text;
}

}  // namespace gputrain
