// Encodings, line ends and YAML's odd corners: field case C07. None may crash or hang.
#include "spec_testing.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string with_line_ends(const std::string& end) {
  std::string text;
  for (char c : kGood) text += c == '\n' ? end : std::string(1, c);
  return text;
}

void expect_same_as_good(const std::string& text) {
  const Spec spec = parse(text), good = parse(std::string(kGood));
  EXPECT_EQ(to_yaml(spec), to_yaml(good));
  EXPECT_EQ(spec.find("optimizer.lr")->origin.place(), "a.yaml:11:7");
}

TEST(C07, ByteOrderMarkAndLineEndsDoNotMatter) {
  expect_same_as_good("\xef\xbb\xbf" + std::string(kGood));
  expect_same_as_good(with_line_ends("\r\n"));
  expect_same_as_good(with_line_ends("\r"));
  expect_same_as_good("\xef\xbb\xbf" + with_line_ends("\r\n"));
  expect_same_as_good(std::string(kGood) + "...\n");
}

TEST(C07, Utf16IsNamed) {
  std::string little = "\xff\xfe", big = "\xfe\xff";
  for (char c : kGood) {
    little += c, little += '\0';
    big += '\0', big += c;
  }
  for (const auto& text : {little, big, little.substr(2), big.substr(2)}) {
    EXPECT_THAT(problems(text),
                ElementsAre("a.yaml: the text is UTF-16 or UTF-32, not UTF-8\nhint: save the file as UTF-8"));
  }
}

TEST(C07, TabsAsIndentationAreNamed) {
  EXPECT_EQ(problems(good_with("  epochs: 2", "\tepochs: 2")).at(0),
            "a.yaml:7:1: a tab as indentation: YAML allows only spaces there\n"
            "    7 | \tepochs: 2\n"
            "      | ^\n"
            "hint: replace the tab by spaces");
  EXPECT_THAT(problems(good_with("  global_batch", "\tglobal_batch")),
              ElementsAre(StartsWith("a.yaml:8:1: a tab as indentation")));
  EXPECT_THAT(problems(good_with("  lr", " \tlr")), ElementsAre(StartsWith("a.yaml:11:2: a tab as indentation")));
  EXPECT_THAT(problems("\t" + std::string(kGood)), ElementsAre(StartsWith("a.yaml:1:1: a tab as indentation")));
  EXPECT_THAT(problems(good_with("name: demo", "name:\tdemo")), IsEmpty());
}

TEST(C07, EmptyAndShapelessFiles) {
  for (const std::string text : {"", "\n\n", "# only\n# comments\n", "---\n", "\xef\xbb\xbf", "null\n"}) {
    EXPECT_THAT(problems(text), ElementsAre("a.yaml: the file is empty\nhint: gputrain init writes an example"))
        << text;
  }
  EXPECT_THAT(problems("- a\n- b\n"),
              ElementsAre(StartsWith("a.yaml:1:1: expected keys with values at the top of the file, got a list")));
  EXPECT_THAT(problems("hello\n"), ElementsAre(HasSubstr("at the top of the file, got \"hello\"")));
}

TEST(C07, OneDocumentOnly) {
  EXPECT_THAT(problems(std::string(kGood) + "---\nname: b\n"),
              ElementsAre(StartsWith("a.yaml:12:1: a second YAML document")));
  EXPECT_THAT(problems("---\n" + std::string(kGood)), IsEmpty());
  EXPECT_THAT(problems("%YAML 1.2\n---\n" + std::string(kGood)), IsEmpty());
}

TEST(C07, StrangeBytes) {
  EXPECT_EQ(problems(good_with("name: demo", "name: de" + std::string(1, '\0') + "mo")).at(0),
            "a.yaml:1:9: a NUL byte in the text\n"
            "    1 | name: de\\x00mo\n"
            "      |         ^\n"
            "hint: is this a YAML file? Remove the byte");
  EXPECT_THAT(problems(good_with("name: demo", "name: d\xffmo")),
              ElementsAre(StartsWith("a.yaml:1:8: not UTF-8 text")));
  EXPECT_THAT(problems(good_with("name: demo", "name: d\xc3")), ElementsAre(StartsWith("a.yaml:1:8: not UTF-8 text")));
  EXPECT_THAT(problems(good_with("  epochs", "\xc2\xa0 epochs")),
              ElementsAre(StartsWith("a.yaml:7:1: indented with a no-break space")));
  EXPECT_THAT(problems(good_with("name: demo", "name: d\xc3\xa9mo")), IsEmpty());
}

TEST(C07, MergeKeysAliasesAndTags) {
  EXPECT_THAT(problems("x-base: &base {every: auto}\n" + std::string(kGood) + "log: {<<: *base}\n"),
              ElementsAre(StartsWith("a.yaml:13:7: log.<<: merge keys (<<) are not supported")));
  EXPECT_THAT(problems("x-a: &x [*x]\n" + std::string(kGood)),
              ElementsAre(StartsWith("a.yaml:1:10: x-a: an alias inside the value")));
  EXPECT_THAT(problems("x-a: &x {b: {c: *x}}\n" + std::string(kGood)),
              ElementsAre(HasSubstr("x-a.b.c: an alias inside the value")));
  EXPECT_THAT(problems("x-a: *y\n" + std::string(kGood)),
              ElementsAre(AllOf(HasSubstr("an alias (*name) of something that has no name here"),
                                HasSubstr("quote a pattern"))));
  EXPECT_THAT(problems(good_with("name: demo", "name: !!str demo")),
              ElementsAre(StartsWith("a.yaml:1:7: name: tags are not supported")));
}

TEST(C07, AnAliasStandsForItsValue) {
  const Spec spec = parse("x-rate: &rate 2e-3\n" + good_with("lr: 1e-3", "lr: *rate"));
  EXPECT_EQ(spec.at("optimizer.lr").get<double>(), 2e-3);
  EXPECT_EQ(spec.find("optimizer.lr")->origin.brief(), "a.yaml:12");
}

TEST(C07, ABillionLaughsAreRefused) {
  std::string text = "x-0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    text += "x-" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias;
    for (int k = 1; k < 10; ++k) text += ", " + alias;
    text += "]\n";
  }
  EXPECT_THAT(problems(text + std::string(kGood)), ElementsAre(HasSubstr("aliases stand for too many values")));
}

TEST(C07, LongLinesAndDeepNestingEnd) {
  constexpr int kMegabyte = 1 << 20;
  auto repeated = [](const std::string& unit) {
    std::string text;
    while (text.size() < kMegabyte) text += unit;
    return text;
  };
  EXPECT_THAT(problems(good_with("name: demo", "name: " + repeated("x"))),
              ElementsAre(HasSubstr("expected at most 200 bytes")));
  EXPECT_THAT(problems(good_with("seed: 7", "seed: " + repeated("7"))),
              ElementsAre(HasSubstr("...\" (1048576 bytes)")));
  EXPECT_THAT(problems(repeated("[")), ElementsAre(HasSubstr("nested too deeply")));
  EXPECT_THAT(problems("a: " + repeated("{")), ElementsAre(HasSubstr("nested too deeply")));
  EXPECT_THAT(problems(repeated("- ")), ElementsAre(HasSubstr("nested too deeply")));
  for (const auto& error : problems(repeated("x: [1, 2]\n").substr(0, 20000))) EXPECT_LT(error.size(), 500u);
}

TEST(Text, BrokenFlowCollections) {
  EXPECT_THAT(problems(std::string(kGood) + "log: {every: auto\n"),
              ElementsAre(HasSubstr("not valid YAML: a { without its }")));
  EXPECT_THAT(problems(std::string(kGood) + "x-a: [1\n"), ElementsAre(HasSubstr("not valid YAML: a [ without its ]")));
  EXPECT_THAT(problems(good_with("name: demo", "name: demo: x")),
              ElementsAre(HasSubstr("a \":\" that does not belong here")));
  EXPECT_THAT(problems(std::string(kGood) + "? [a]\n: 1\n"),
              ElementsAre(HasSubstr("a key must be a word, got a list")));
  EXPECT_THAT(problems(std::string(kGood) + ": 1\n"), ElementsAre(HasSubstr("a key must be a word, got nothing")));
}

TEST(Text, EveryPrefixOfAGoodFileGivesErrorsOrASpec) {
  for (size_t n = 0; n < kGood.size(); ++n) {
    for (const auto& error : problems(std::string(kGood.substr(0, n)))) EXPECT_THAT(error, StartsWith("a.yaml")) << n;
  }
}

TEST(Text, EveryByteInPlaceOfAnotherGivesErrorsOrASpec) {
  for (size_t at = 0; at < kGood.size(); at += 3) {
    for (const char byte : {'\0', '\t', '\n', ':', '-', '&', '*', '{', '}',    '[',
                            ']',  '"',  '\'', '#', '|', '>', '%', '@', '\x80', '\xff'}) {
      std::string text(kGood);
      text[at] = byte;
      for (const auto& error : problems(text)) EXPECT_THAT(error, StartsWith("a.yaml")) << at;
    }
  }
}

}  // namespace
}  // namespace gputrain
