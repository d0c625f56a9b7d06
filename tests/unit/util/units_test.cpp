#include "util/units.h"

#include <limits>

#include <gtest/gtest.h>

namespace gputrain {
namespace {

TEST(Duration, EveryUnitIsReadAndWrittenBack) {
  for (const char* text : {"250ms", "30s", "10m", "2h", "3d", "0s"}) {
    auto duration = parse_duration(text);
    ASSERT_TRUE(duration) << text;
    EXPECT_EQ(format_duration(*duration), text);
  }
  EXPECT_EQ(parse_duration("1.5s")->count(), 1500);
  EXPECT_EQ(format_duration(Milliseconds(1500)), "1500ms");
}

TEST(Duration, AUnitIsRequired) {
  for (const char* text : {"", "30", "s", "30 parsecs", "-5s", "1:30", "12:00:00", "nan s", "1e99h"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(Units, WhatWouldOverflowLaterIsRefused) {
  EXPECT_TRUE(parse_duration("36500d"));
  EXPECT_FALSE(parse_duration("36501d"));
  EXPECT_TRUE(parse_length("1000000000 epochs"));
  EXPECT_FALSE(parse_length("1000000001 steps"));
  EXPECT_FALSE(parse_length("9223372036854775807 epochs"));
}

TEST(Length, PartsOfTheWhole) {
  EXPECT_EQ(parse_length("5%"), (Length{500, Length::Unit::kPercent}));
  EXPECT_EQ(parse_length("2.5 %"), (Length{250, Length::Unit::kPercent}));
  EXPECT_EQ(parse_length("0.01%"), (Length{1, Length::Unit::kPercent}));
  EXPECT_EQ(parse_length("100%"), (Length{10000, Length::Unit::kPercent}));
  for (const char* text : {"%", "101%", "-1%", "0.001%", "5%%", "a%", "5 % ", " 5%"})
    EXPECT_FALSE(parse_length(text)) << text;
  EXPECT_EQ(format_length({250, Length::Unit::kPercent}), "2.5%");
  EXPECT_EQ(format_length({500, Length::Unit::kPercent}), "5%");
  EXPECT_EQ(length_in_steps({500, Length::Unit::kPercent}, 7, 100), 5);
  EXPECT_EQ(length_in_steps({500, Length::Unit::kPercent}, 7, 101), 6);  // rounded up
}

TEST(Length, StepsAndEpochs) {
  EXPECT_EQ(parse_length("500 steps"), (Length{500, Length::Unit::kSteps}));
  EXPECT_EQ(parse_length("1 epoch"), (Length{1, Length::Unit::kEpochs}));
  EXPECT_EQ(length_in_steps({3, Length::Unit::kEpochs}, 235), 705);
  EXPECT_EQ(format_length({1, Length::Unit::kSteps}), "1 step");
  for (const char* text : {"500", "steps", "-1 steps", "1.5 epochs", "1e3 steps", "5 minutes"}) {
    EXPECT_FALSE(parse_length(text)) << text;
  }
}

TEST(Size, BinaryUnitsOnly) {
  EXPECT_EQ(parse_size("64 MiB"), 64 << 20);
  EXPECT_EQ(parse_size("1GiB"), 1 << 30);
  EXPECT_FALSE(parse_size("64k"));
  EXPECT_FALSE(parse_size("64 MB"));
  EXPECT_EQ(format_size(1536), "1.5 KiB");
  EXPECT_EQ(format_size(12), "12 B");
}

// C06 of the field cases: decimal integers and nothing else, never octal, never truncated.
TEST(Int, OnlyDecimalIntegers) {
  EXPECT_EQ(parse_int("3000000000"), 3000000000);
  EXPECT_EQ(parse_int("-1"), -1);
  EXPECT_EQ(parse_int("+7"), 7);
  EXPECT_EQ(parse_int("0"), 0);
  for (const char* text : {"", "0010", "08", "1e6", "1_000", "100.0", "100.5", "1:30", "0x10", "64k", " 1", "1 ",
                           "99999999999999999999", "--1", "+-1"}) {
    EXPECT_FALSE(parse_int(text)) << text;
  }
}

// C01 of the field cases.
TEST(Double, EverySpellingOfOneTenThousandth) {
  for (const char* text : {"1e-4", "1E-4", "1.e-4", ".0001", "+1e-4", "0.0001", "1.0e-04"}) {
    ASSERT_TRUE(parse_double(text)) << text;
    EXPECT_EQ(*parse_double(text), 1e-4) << text;
  }
  EXPECT_EQ(parse_double("-.5"), -0.5);
  EXPECT_EQ(parse_double("-.inf"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse_double("0.0"), 0.0);
}

TEST(Double, UnderflowOverflowAndWordsAreRefused) {
  for (const char* text :
       {"", ".", "1e-400", "1e400", "nan", ".nan", "fast", "0x1p3", "1e", "1 e-4", "inf", "1,5", "-", "1_0.0"}) {
    EXPECT_FALSE(parse_double(text)) << text;
  }
}

TEST(Elapsed, ForPeople) {
  EXPECT_EQ(format_elapsed(7.24), "7.2s");
  EXPECT_EQ(format_elapsed(185), "3m 05s");
  EXPECT_EQ(format_elapsed(3720), "1h 02m");
  EXPECT_EQ(format_elapsed(std::numeric_limits<double>::quiet_NaN()), "-");
}

}  // namespace
}  // namespace gputrain
