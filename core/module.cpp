// Python's view of the core. The only file that sees the binding library: arrays and plain numbers
// cross here, never single events.
#include <nanobind/nanobind.h>

#include "store/format.h"

namespace nb = nanobind;

namespace {

void bind_format(nb::module_& m) {
  m.attr("FORMAT_VERSION") = frametap::format::kFormatVersion;
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "frametap's core: recording and replay.";
  bind_format(m);
}
