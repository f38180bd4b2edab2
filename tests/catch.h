// Catch2, version 2 or 3.
#pragma once

#ifdef COPYLAB_CATCH3
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
