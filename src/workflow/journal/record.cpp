#include "workflow/journal/record.hpp"

namespace flashmoe::workflow {

RecordBody::RecordBody() = default;
RecordBody::RecordBody(const RecordBody& other) = default;
RecordBody::RecordBody(RecordBody&& other) noexcept = default;
RecordBody& RecordBody::operator=(const RecordBody& other) = default;
RecordBody& RecordBody::operator=(RecordBody&& other) noexcept = default;
RecordBody::~RecordBody() = default;

Record::Record() = default;
Record::Record(const Record& other) = default;
Record::Record(Record&& other) noexcept = default;
Record& Record::operator=(const Record& other) = default;
Record& Record::operator=(Record&& other) noexcept = default;
Record::~Record() = default;

}  // namespace flashmoe::workflow
