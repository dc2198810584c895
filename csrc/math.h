// Vector functions of the tile machine, for vectors V of float or double (vector.h).
//
// Each takes NaN to NaN and has the right limits at +-inf; results too small for a normal number
// are 0 (the machine runs with denormals flushed, which would otherwise cost a hundred cycles
// each). Errors are measured in tests/test_tile_machine.py.
#pragma once

#include "vector.h"

namespace fastcell::FASTCELL_ISA {

template <class T>
struct Constants;

template <>
struct Constants<float> {
  static constexpr int MANTISSA = 23;
  static constexpr float ROUNDER = 12582912;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float LOG2_E = 1.44269504f, LN2_HIGH = 0.693359375f, LN2_LOW = -2.12194440e-4f;
  static constexpr float EXP_LIMIT = 88;  // e^-88 counts as 0 beside 1, and e^88 is finite
  static constexpr float LARGEST = 3.40282347e38f;
  static constexpr float TANH_LIMIT = 20;           // tanh(10) is 1
  static constexpr float NORMAL_LIMIT = 14;         // P(normal > 14) is 0
  static constexpr int32_t HALF_BITS = -(1 << 12);  // keeps 12 bits, whose square is exact
  // (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2, error 2^-26 of e^r - 1
  static constexpr float EXPM1[] = {0.499999981f, 0.166665434f, 0.0416672006f, 8.36654719e-3f,
                                    1.38825199e-3f};
  // (|x| + 4) P(normal > |x|) e^(x^2 / 2) as a polynomial in t = 1 - 8 / (|x| + 4), error 2^-27
  static constexpr float NORMAL_SHIFT = 4;
  static constexpr float NORMAL_TAIL[] = {
      0.755285135f,    -0.607896597f,   0.38713683f,    -0.186523206f,  0.0604041435f,
      -7.52672706e-3f, -3.51498299e-3f, 1.57185847e-3f, 1.84630580e-4f, -1.29527831e-4f};
};

template <>
struct Constants<double> {
  static constexpr int MANTISSA = 52;
  static constexpr double ROUNDER = 6755399441055744;  // 1.5 * 2^52
  static constexpr double LOG2_E = 1.4426950408889634074, LN2_HIGH = 0.693145751953125,
                          LN2_LOW = 1.42860682030941723212e-6;
  static constexpr double EXP_LIMIT = 709;
  static constexpr double LARGEST = 1.7976931348623157e308;
  static constexpr double TANH_LIMIT = 40;
  static constexpr double NORMAL_LIMIT = 39;
  static constexpr int64_t HALF_BITS = -(1ll << 27);
  // error 2^-55
  static constexpr double EXPM1[] = {0.50000000000000051997,   0.16666666666666588942,
                                     0.041666666666576469364,  0.0083333333333897503294,
                                     0.0013888888931666776638, 1.9841269718672533704e-4,
                                     2.4801505142992298765e-5, 2.7557407720825657577e-6,
                                     2.7626092743415199255e-7, 2.5053764728102713902e-8};
  // in t = 1 - 10 / (|x| + 5), error 2^-57
  static constexpr double NORMAL_SHIFT = 5;
  static constexpr double NORMAL_TAIL[] = {
      0.76919304975006295591,    -0.66538250289005678118,   0.49530561596997729911,
      -0.31353315667129619628,   0.16502036617033740862,    -0.069118638706569977462,
      0.020795066800837913706,   -0.0029933767667058837374, -7.978694080123055023e-4,
      5.4489903339154822023e-4,  -5.9375674776879465604e-5, -4.9762654909790136974e-5,
      1.668104116602209396e-5,   3.9803846826620996063e-6,  -2.7689523531213841719e-6,
      -3.355371181334201729e-7,  4.3288393630914868084e-7,  4.0880353035626065782e-8,
      -6.6011413464637133843e-8, -8.2946898114811558195e-9, 7.9421569710182990748e-9,
      1.431933060984008332e-9,   -3.0290539004546706154e-10};
};

template <class V>
using ConstantsFor = Constants<Element<V>>;

// NaN stays NaN.
template <class V>
FASTCELL_INLINE V at_most(V x, Element<V> limit) {
  return least(V{} + limit, x);
}

template <class V>
FASTCELL_INLINE V at_least(V x, Element<V> limit) {
  return greatest(V{} + limit, x);
}

template <class V>
FASTCELL_INLINE V within(V x, Element<V> limit) {
  return at_most(at_least(x, -limit), limit);
}

template <class V>
FASTCELL_INLINE Mask<V> sign_bit(V x) {
  return (Mask<V>)x & (Mask<V>)-V{};
}

template <class V>
FASTCELL_INLINE V abs(V x) {
  return (V)((Mask<V>)x & ~(Mask<V>)-V{});
}

template <class V>
FASTCELL_INLINE V minus_abs(V x) {
  return (V)((Mask<V>)x | (Mask<V>)-V{});
}

// 1, -1, 0 at 0, and NaN at NaN.
template <class V>
FASTCELL_INLINE V sign(V x) {
  V one = V{} + 1;
  return where<V>(x == 0, V{}, where<V>(x == x, (V)((Mask<V>)one | sign_bit(x)), x));
}

template <class V>
FASTCELL_INLINE V half(V x) {
  return x * Element<V>(0.5);
}

template <class V>
FASTCELL_INLINE V square(V x) {
  return x * x;
}

// coefficients[0] + coefficients[1] x + ...
template <class V, int N>
FASTCELL_INLINE V polynomial(V x, const Element<V> (&coefficients)[N]) {
  V sum = V{} + coefficients[N - 1];
#pragma GCC unroll 32
  for (int i = N - 2; i >= 0; --i) sum = sum * x + coefficients[i];
  return sum;
}

// e^x = 2^n (1 + fraction), n an integer in the low bits of `rounded`, |fraction| < 0.42.
template <class V>
struct Exponential {
  V rounded, fraction;

  // of x, for |x| within EXP_LIMIT or so
  FASTCELL_INLINE explicit Exponential(V x) {
    V r = reduce(x);
    fraction = polynomial(r, ConstantsFor<V>::EXPM1) * square(r) + r;
  }

  // of x + low, for a sum that V can't hold
  FASTCELL_INLINE Exponential(V x, V low) {
    V r = reduce(x) + low;
    fraction = polynomial(r, ConstantsFor<V>::EXPM1) * square(r) + r;
  }

 private:
  FASTCELL_INLINE V reduce(V x) {
    using C = ConstantsFor<V>;
    rounded = x * C::LOG2_E + C::ROUNDER;
    V n = rounded - C::ROUNDER;
    return x - n * C::LN2_HIGH - n * C::LN2_LOW;
  }
};

// 2^n for the n of Exponential::rounded, -bias <= n <= bias; 0 for n = -bias.
template <class V>
FASTCELL_INLINE V power_of_two(V rounded) {
  V one = V{} + 1;
  return (V)(((Mask<V>)rounded << ConstantsFor<V>::MANTISSA) + (Mask<V>)one);
}

// The value, when |x| <= EXP_LIMIT.
template <class V>
FASTCELL_INLINE V value(Exponential<V> e) {
  V scale = power_of_two(e.rounded);
  return e.fraction * scale + scale;
}

// Scaled in two steps, since 2^n alone may be beyond the largest number when e^x is not.
template <class V>
FASTCELL_INLINE V exp(V x) {
  using C = ConstantsFor<V>;
  Exponential<V> e(within(x, C::EXP_LIMIT + 20));
  V half_rounded = half(e.rounded - C::ROUNDER) + C::ROUNDER;
  V rest = e.rounded - half_rounded + C::ROUNDER;
  return (1 + e.fraction) * power_of_two(half_rounded) * power_of_two(rest);
}

// 1 / (1 + e^-x), with one rounding fewer than if e^-x were formed first.
template <class V>
FASTCELL_INLINE V sigmoid(V x) {
  Exponential<V> e(within(-x, ConstantsFor<V>::EXP_LIMIT));
  V scale = power_of_two(e.rounded);
  return 1 / ((e.fraction * scale + 1) + scale);
}

// (1 - e^-2|x|) / (1 + e^-2|x|) with the sign of x. Likewise; near 0 that keeps every digit.
template <class V>
FASTCELL_INLINE V tanh(V x) {
  Exponential<V> e(at_least(minus_abs(x + x), -ConstantsFor<V>::TANH_LIMIT));
  V scale = power_of_two(e.rounded);
  V above = (1 - scale) - e.fraction * scale, below = (1 + scale) + e.fraction * scale;
  return (V)((Mask<V>)(above / below) | sign_bit(x));
}

template <class V>
FASTCELL_INLINE V softsign(V x) {
  x = within(x, ConstantsFor<V>::LARGEST);
  return x / (1 + abs(x));
}

// (1 + softsign(x)) / 2, without cancellation when x is far below 0.
template <class V>
FASTCELL_INLINE V softsign_scaled(V x) {
  x = at_most(x, ConstantsFor<V>::LARGEST);
  return (at_least(x, 0) + Element<V>(0.5)) / (1 + abs(x));
}

template <class V>
FASTCELL_INLINE V silu(V x) {
  return at_least(x, -ConstantsFor<V>::EXP_LIMIT - 1) * sigmoid(x);
}

// s (1 + x (1 - s)) for s = sigmoid(x), with 1 - s formed as e^-x s.
template <class V>
FASTCELL_INLINE V silu_derivative(V x) {
  x = within(x, ConstantsFor<V>::EXP_LIMIT);
  V e = value(Exponential<V>(-x)), s = 1 / (1 + e);
  return s * (1 + x * (e * s));
}

// The normal distribution at x.
template <class V>
struct Normal {
  V tail;     // P(normal > |x|), right to a few ulp however small
  V density;  // e^(-x^2 / 2)

  FASTCELL_INLINE explicit Normal(V x) {
    using C = ConstantsFor<V>;
    V a = at_most(abs(x), C::NORMAL_LIMIT);
    V high = (V)((Mask<V>)a & C::HALF_BITS);
    V exponent = at_least(half(-high) * high, -C::EXP_LIMIT);
    density = value(Exponential<V>(exponent, half(high - a) * (a + high)));
    V u = 1 / (a + C::NORMAL_SHIFT);
    tail = density * u * polynomial(1 - 2 * C::NORMAL_SHIFT * u, C::NORMAL_TAIL);
  }

  // P(normal < x)
  FASTCELL_INLINE V below(V x) const { return where<V>(x < 0, tail, 1 - tail); }
};

// x P(normal < x)
template <class V>
FASTCELL_INLINE V gelu(V x) {
  return at_least(x, -ConstantsFor<V>::NORMAL_LIMIT) * Normal<V>(x).below(x);
}

template <class V>
FASTCELL_INLINE V gelu_derivative(V x) {
  using C = ConstantsFor<V>;
  constexpr double DENSITY_AT_0 = 0.398942280401432677940;
  Normal<V> normal(x);
  return normal.below(x) + within(x, C::LARGEST) * Element<V>(DENSITY_AT_0) * normal.density;
}

}  // namespace fastcell::FASTCELL_ISA
