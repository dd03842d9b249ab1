// Python's view of the core. The only file that sees the binding library: arrays and plain numbers
// cross here, never single events.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <utility>
#include <vector>

#include "record/session.h"
#include "store/format.h"
#include "store/scan.h"

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

// A column that NumPy owns from here on.
template <typename T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> column(std::vector<T>&& values) {
  auto held = std::make_unique<std::vector<T>>(std::move(values));
  nb::capsule owner(held.get(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  std::vector<T>& kept = *held.release();
  return nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept.data(), {kept.size()}, owner);
}

using Words = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void bind_store(nb::module_& m) {
  namespace store = frametap::store;
  m.def(
      "find_segments",
      [](int fd, uint64_t file_bytes, uint64_t chunk_bytes) {
        store::SegmentColumns found;
        {
          nb::gil_scoped_release release;
          found = store::find_segments(fd, file_bytes, chunk_bytes);
        }
        nb::dict columns;
        columns["thread"] = column(std::move(found.thread));
        columns["sequence"] = column(std::move(found.sequence));
        columns["tick"] = column(std::move(found.tick));
        columns["monotonic_ns"] = column(std::move(found.monotonic_ns));
        columns["n_words"] = column(std::move(found.n_words));
        columns["offset"] = column(std::move(found.offset));
        columns["open"] = column(std::move(found.open));
        columns["fault_offset"] = column(std::move(found.fault_offset));
        columns["fault_kind"] = column(std::move(found.fault_kind));
        return columns;
      },
      nb::arg("fd"), nb::arg("file_bytes"), nb::arg("chunk_bytes"),
      "Columns of all segments in an events.bin, and of what was wrong with them.");
  m.def(
      "count_events",
      [](Words words) {
        store::EventCounts counts{};
        {
          nb::gil_scoped_release release;
          store::count_events(words.data(), words.shape(0), counts);
        }
        return column(std::vector<uint64_t>(counts.begin(), counts.end()));
      },
      nb::arg("words"), "Number of events of each kind; indices: core/store/scan.h.");
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "frametap's core: recording and replay.";
  bind_format(m);
  bind_record(m);
  bind_store(m);
}
