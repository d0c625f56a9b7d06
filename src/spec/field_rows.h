#pragma once
// The parts that fields() is put together from. Internal to spec.
#include <vector>

#include "spec/fields.h"

namespace gputrain {

using FieldRows = std::vector<Field>;

// What is trained on what: model, task, data, loss.
FieldRows model_rows();
FieldRows first_weight_rows();
FieldRows data_rows();
FieldRows loss_rows();

// How: length, numbers, optimizer, schedule, evaluation, records.
FieldRows train_rows();
FieldRows numeric_rows();
FieldRows optimizer_rows();
FieldRows record_rows();

}  // namespace gputrain
