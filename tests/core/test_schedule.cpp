// Schedule: each kind at its corners, and the halving on a plateau.
#include "core/optim/schedule.h"

#include "core/error.h"
#include "tests/catch.h"

using namespace copylab;
using optim::Schedule;

TEST_CASE("warm-up is linear and its first update is not at rate 0", "[schedule]") {
  for (auto kind : {Schedule::Kind::wsd, Schedule::Kind::cosine, Schedule::Kind::constant}) {
    const Schedule s{kind, 0.8, 0.0, 100, 4, 20};
    CHECK(s.at(0) == Approx(0.2));
    CHECK(s.at(1) == Approx(0.4));
    CHECK(s.at(3) == Approx(0.8));
    CHECK(s.at(4) == Approx(0.8));
  }
}

TEST_CASE("wsd is flat, then linear to min_lr", "[schedule]") {
  const Schedule s{Schedule::Kind::wsd, 1.0, 0.1, 100, 10, 20};
  CHECK(s.at(50) == 1.0);
  CHECK(s.at(80) == 1.0);
  CHECK(s.at(90) == Approx(0.1 + 0.9 * 0.5));
  CHECK(s.at(99) == Approx(0.1 + 0.9 / 20));
}

TEST_CASE("wsd without decay stays at lr to the end", "[schedule]") {
  CHECK(Schedule{Schedule::Kind::wsd, 1.0, 0.0, 10, 0, 0}.at(9) == 1.0);
}

TEST_CASE("cosine halves in the middle and ends near min_lr", "[schedule]") {
  const Schedule s{Schedule::Kind::cosine, 1.0, 0.2, 1000, 0, 0};
  CHECK(s.at(0) == Approx(1.0));
  CHECK(s.at(500) == Approx(0.6));
  CHECK(s.at(999) == Approx(0.2).margin(1e-4));
}

TEST_CASE("plateau halves when validation is worse than its best", "[schedule]") {
  optim::Plateau p;
  p.report(5.0);
  p.report(4.0);
  CHECK(p.factor == 1.0);
  p.report(4.5);
  CHECK(p.factor == 0.5);
  CHECK(p.best == 4.0);
  p.report(4.0);
  CHECK(p.factor == 0.5);
  p.report(std::numeric_limits<double>::quiet_NaN());  // not a better loss
  CHECK(p.factor == 0.25);
}

TEST_CASE("an unknown schedule is named in the error", "[schedule]") {
  CHECK_THROWS_WITH(optim::schedule_kind("step"),
                    "[schedule] wsd, cosine, constant or plateau expected: got step");
}
