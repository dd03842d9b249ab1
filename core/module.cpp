// Python's view of the core. The only file that sees the binding library: arrays and plain numbers
// cross here, never single events.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "record/session.h"
#include "store/format.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

void bind_format(nb::module_& m) {
  m.attr("FORMAT_VERSION") = frametap::format::kFormatVersion;
}

// A SessionError without a text means that a Python exception is set.
template <class F>
auto python_errors(F&& f) {
  try {
    return f();
  } catch (const frametap::SessionError& e) {
    if (PyErr_Occurred()) throw nb::python_error();
    throw nb::value_error(e.what());
  }
}

void require_name(nb::handle name) {
  if (!PyUnicode_Check(name.ptr())) throw nb::type_error("a mark's name must be a str");
}

// A context manager without a Python frame of its own.
struct Span {
  nb::object name;
  uint64_t serial = 0;
};

void bind_record(nb::module_& m) {
  using namespace frametap;
  m.def(
      "start",
      [](std::string folder, std::string package_folder, std::string engine, bool c_calls, bool gc) {
        return python_errors(
            [&] { return start({std::move(folder), std::move(package_folder), std::move(engine), c_calls, gc}); });
      },
      "folder"_a, "package_folder"_a, "engine"_a, "c_calls"_a, "gc"_a);
  m.def("stop", [] { return frametap::stop(); });
  m.def("pause", [] { return frametap::pause(); });
  m.def("resume", [] { python_errors([] { resume(); }); });
  m.def("is_recording", [] { return frametap::is_recording(); });
  m.def("is_started", [] { return frametap::is_started(); });
  m.def("engines", [] { return frametap::engines(); });
  m.def("losses", [] { return frametap::losses(); });
  m.def("instant", [](nb::handle name) {
    require_name(name);
    instant(name.ptr());
  });
  m.def("counter", [](nb::handle name, double value) {
    require_name(name);
    counter(name.ptr(), value);
  });
  nb::class_<Span>(m, "Span")
      .def("__init__",
           [](Span* self, nb::object name) {
             require_name(name);
             new (self) Span{std::move(name)};
           })
      .def("__enter__",
           [](nb::object self) {
             auto& span = nb::cast<Span&>(self);
             span.serial = span_begin(span.name.ptr());
             return self;
           })
      .def(
          "__exit__",
          [](Span& span, nb::handle, nb::handle, nb::handle) {
            span_end(span.serial);
            span.serial = 0;
          },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "frametap's core: recording and replay.";
  bind_format(m);
  bind_record(m);
}
