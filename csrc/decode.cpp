#include "decode.h"

#include <algorithm>
#include <stdexcept>

namespace fastcell {
namespace {

// What an instruction does with an operand.
enum class Role {
  IGNORED,
  SOURCE,    // reads rows of it: of a buffer at hand, or a ROW
  TARGET,    // writes rows of it: of a buffer at hand
  WEIGHT,    // the whole of a WEIGHT buffer
  PACKED,    // part of a WEIGHT buffer, or of a ROW that PACK fills
  GRAD,      // part of a GRAD buffer
  TENSOR,    // the caller's
  OPTIONAL,  // a tensor, or -1
};

struct Signature {
  const char* name;
  Role dst, a, b, c;
};

constexpr Role NOT = Role::IGNORED, IN = Role::SOURCE, OUT = Role::TARGET;
// The third argument of FASTCELL_UNARY, what a derivative reads, as the role of its operand b.
constexpr Role x = IN, y = IN, none = NOT;

constexpr Signature SIGNATURES[] = {
    {"load", OUT, Role::TENSOR, Role::OPTIONAL, NOT},
    {"store", Role::TENSOR, IN, NOT, NOT},
    {"gemm", OUT, IN, Role::WEIGHT, NOT},  // and c, in BIAS mode
    {"mean", OUT, IN, NOT, NOT},
    {"outer", Role::GRAD, IN, IN, NOT},
    {"sumrows", Role::GRAD, IN, NOT, NOT},
    {"pack", Role::PACKED, Role::TENSOR, NOT, NOT},
    {"unpack", Role::TENSOR, Role::GRAD, NOT, NOT},
    {"copy", OUT, IN, NOT, NOT},
    {"zero", OUT, NOT, NOT, NOT},
#define FASTCELL_UNARY(name, value, reads, derivative) \
  {#name, OUT, IN, NOT, NOT}, {#name "_grad", OUT, IN, reads, NOT},
#define FASTCELL_BINARY(name, value) {#name, OUT, IN, IN, NOT},
#define FASTCELL_TERNARY(name, value) {#name, OUT, IN, IN, IN},
#include "ops.def"
};
static_assert(sizeof(SIGNATURES) / sizeof(Signature) == OPCODES);

constexpr const char* KIND_NAMES[] = {"TILE", "CHUNK", "CARRY", "ROW", "WEIGHT", "GRAD"};
constexpr const char* SECTION_NAMES[] = {"SETUP", "PRE", "LOOP", "POST", "FINISH"};

// The largest number in a Program, so that no product of two leaves 64 bits.
constexpr int32_t LARGEST = 1 << 24;

// Where something is wrong, for the message: "buffer 3: width: found 0, expected 1 to 16777216".
class Place {
 public:
  explicit Place(std::string text) : text(std::move(text)) {}

  Place operator/(const std::string& part) const { return Place(text + ": " + part); }

  void expect(bool good, const std::string& found, const std::string& expected) const {
    if (!good) throw std::invalid_argument(text + ": found " + found + ", expected " + expected);
  }

  void expect_within(int64_t found, int64_t least, int64_t most) const {
    expect(found >= least && found <= most, std::to_string(found),
           std::to_string(least) + " to " + std::to_string(most));
  }

 private:
  std::string text;
};

void check_buffer(const Program& program, const Buffer& buffer, const Place& place) {
  int32_t last_tensor = program.tensors - 1;
  (place / "kind").expect_within(int(buffer.kind), 0, int(Kind::GRAD));
  (place / "width").expect_within(buffer.width, 1, LARGEST);
  if (buffer.kind >= Kind::ROW) (place / "rows").expect_within(buffer.rows, 1, LARGEST);
  if (buffer.kind == Kind::ROW) {
    (place / "tensor_a").expect_within(buffer.tensor_a, -1, last_tensor);
    (place / "rows")
        .expect(buffer.rows == 1 || buffer.rows == buffer.width, std::to_string(buffer.rows),
                "1 or its width");
  }
  if (buffer.kind == Kind::CARRY) {
    (place / "tensor_a").expect_within(buffer.tensor_a, -1, last_tensor);
    (place / "tensor_b").expect_within(buffer.tensor_b, -1, last_tensor);
  }
}

// The checks of one instruction.
class Checker {
 public:
  Checker(const Program& program, const Instruction& code, const Place& place)
      : program(program), code(code), place(place) {}

  void check() const {
    Signature roles = SIGNATURES[code.opcode];
    if (code.opcode == GEMM && code.extra0 == BIAS) roles.c = IN;
    check_section();
    (place / "width").expect_within(code.width, 1, LARGEST);
    check_operand("dst", roles.dst, code.dst, code.width);
    check_operand("b", roles.b, code.b, code.width);
    check_operand("a", roles.a, code.a, width_of_a());
    check_operand("c", roles.c, code.c, code.width);
    check_overlap("a", roles.dst, roles.a, code.a, width_of_a());
    check_overlap("b", roles.dst, roles.b, code.b, code.width);
    check_overlap("c", roles.dst, roles.c, code.c, code.width);
    check_extras();
  }

 private:
  void check_section() const {
    bool pack = code.opcode == PACK, unpack = code.opcode == UNPACK;
    Section first = pack ? Section::SETUP : unpack ? Section::FINISH : Section::PRE;
    Section last = pack ? Section::SETUP : unpack ? Section::FINISH : Section::POST;
    (place / "section")
        .expect(code.section >= first && code.section <= last, SECTION_NAMES[int(code.section)],
                pack     ? "SETUP"
                : unpack ? "FINISH"
                         : "PRE, LOOP or POST");
  }

  // To be asked when b is known to be good.
  int64_t width_of_a() const {
    if (code.opcode == GEMM) return program.buffers[code.b.buffer].rows;
    return code.opcode == OUTER ? code.extra0 : code.width;
  }

  void check_operand(const char* name, Role role, Operand operand, int64_t width) const {
    Place here = place / name;
    if (role == NOT) return;
    if (role == Role::TENSOR || role == Role::OPTIONAL) {
      here.expect_within(operand.buffer, role == Role::TENSOR ? 0 : -1, program.tensors - 1);
      return (here / "column").expect_within(operand.column, 0, LARGEST);
    }
    here.expect_within(operand.buffer, 0, int64_t(program.buffers.size()) - 1);
    const Buffer& buffer = program.buffers[operand.buffer];
    check_kind(here, role, buffer.kind);
    if (role == IN || role == OUT) check_columns(here, operand.column, width, buffer);
  }

  void check_kind(const Place& here, Role role, Kind kind) const {
    auto expect = [&](bool good, const std::string& expected) {
      here.expect(good, KIND_NAMES[int(kind)], expected);
    };
    if (role == Role::WEIGHT) return expect(kind == Kind::WEIGHT, "WEIGHT");
    if (role == Role::PACKED)
      return expect(kind == Kind::WEIGHT || kind == Kind::ROW, "WEIGHT or ROW");
    if (role == Role::GRAD) return expect(kind == Kind::GRAD, "GRAD");
    bool loop = code.section == Section::LOOP;
    bool at_hand = kind == Kind::CHUNK || (loop && (kind == Kind::TILE || kind == Kind::CARRY));
    std::string kinds = loop ? "TILE, CHUNK or CARRY" : "CHUNK";
    if (role == OUT) return expect(at_hand, kinds);
    expect(at_hand || kind == Kind::ROW, kinds + " or ROW");
  }

  void check_columns(const Place& here, int64_t first, int64_t width, const Buffer& buffer) const {
    check_aligned(here, first);
    (here / "last column").expect_within(first + padded(width), 1, padded(buffer.width));
  }

  void check_aligned(const Place& here, int64_t column) const {
    (here / "column").expect_within(column, 0, LARGEST);
    (here / "column")
        .expect(column % LANES == 0, std::to_string(column),
                "a multiple of " + std::to_string(LANES));
  }

  // A result may take the place of an operand, but not part of it.
  void check_overlap(const char* name, Role target, Role role, Operand operand,
                     int64_t width) const {
    if (target != OUT || role != IN || operand.buffer != code.dst.buffer) return;
    int64_t from = operand.column, to = code.dst.column;
    bool apart = from + padded(width) <= to || to + padded(code.width) <= from;
    bool same = from == to && code.opcode != GEMM;
    (place / name).expect(apart || same, "columns of dst", "others");
  }

  void check_extras() const {
    Place rows = place / "extra0";
    switch (code.opcode) {
      case LOAD:
        return rows.expect_within(code.extra0, -1, 0);
      case GEMM:
        rows.expect_within(code.extra0, SET, BIAS);
        return check_gemm();
      case OUTER:
        return check_block(code.dst.buffer, code.dst.column, 0);
      case SUMROWS:
        return check_columns(place / "dst", code.dst.column, code.width,
                             program.buffers[code.dst.buffer]);
      case PACK:
        (place / "extra1").expect_within(code.extra1, 0, 1);
        return check_transfer(code.dst.buffer);
      case UNPACK:
        check_aligned(place / "c", code.c.column);
        return check_transfer(code.a.buffer);
    }
  }

  void check_gemm() const {
    int32_t width = program.buffers[code.b.buffer].width;
    (place / "width").expect_within(code.width, width, width);
    if (code.extra0 != BIAS) return;
    Kind kind = program.buffers[code.c.buffer].kind;
    (place / "c").expect(kind == Kind::ROW, KIND_NAMES[int(kind)], "ROW");
  }

  void check_transfer(int32_t buffer) const {
    check_block(buffer, code.c.buffer, code.c.column);
    (place / "b: row").expect_within(code.b.buffer, 0, LARGEST);
    (place / "b: column").expect_within(code.b.column, 0, LARGEST);
  }

  // extra0 rows x width columns from (row, column) on are inside the buffer.
  void check_block(int32_t index, int64_t row, int64_t column) const {
    const Buffer& buffer = program.buffers[index];
    (place / "extra0").expect_within(code.extra0, 1, LARGEST);
    (place / "first row").expect_within(row, 0, buffer.rows - code.extra0);
    (place / "first column").expect_within(column, 0, buffer.width - code.width);
  }

  const Program& program;
  const Instruction& code;
  const Place& place;
};

// What the machine reads but the instruction ignores: the absent operands of an elementwise one
// are made to stand for dst, so that each operand is a place in a buffer.
Instruction completed(Instruction code) {
  const Signature& roles = SIGNATURES[code.opcode];
  if (code.opcode < COPY) return code;
  if (roles.a == NOT) code.a = code.dst;
  if (roles.b == NOT) code.b = code.dst;
  if (roles.c == NOT) code.c = code.dst;
  return code;
}

std::vector<char> required_tensors(const Program& program) {
  std::vector<char> required(program.tensors, false);
  for (const Buffer& buffer : program.buffers) {
    if (buffer.kind == Kind::ROW && buffer.tensor_a >= 0) required[buffer.tensor_a] = true;
  }
  for (const Instruction& code : program.code) {
    if (code.opcode == PACK) required[code.a.buffer] = true;
  }
  return required;
}

}  // namespace

const char* opcode_name(int32_t opcode) { return SIGNATURES[opcode].name; }

Program decode(Dtype dtype, int32_t tensors, bool reverse, std::vector<Buffer> buffers,
               std::vector<Instruction> code) {
  Place("tensors").expect_within(tensors, 0, LARGEST);
  Program program{dtype, tensors, reverse, std::move(buffers), {}, {}, {}};
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    check_buffer(program, program.buffers[i], Place("buffer " + std::to_string(i)));
  }
  for (size_t i = 0; i < code.size(); ++i) {
    Place place("instruction " + std::to_string(i));
    (place / "opcode").expect_within(code[i].opcode, 0, OPCODES - 1);
    (place / "section").expect_within(int(code[i].section), 0, SECTIONS - 1);
    place = place / SIGNATURES[code[i].opcode].name;
    Checker(program, code[i], place).check();
    code[i] = completed(code[i]);
  }
  for (int section = 0; section < SECTIONS; ++section) {
    program.sections[section] = int32_t(program.code.size());
    std::copy_if(code.begin(), code.end(), std::back_inserter(program.code),
                 [&](const Instruction& each) { return int(each.section) == section; });
  }
  program.sections[SECTIONS] = int32_t(program.code.size());
  program.tensor_required = required_tensors(program);
  return program;
}

}  // namespace fastcell
