// Python's view of the core. The only file that sees the binding library: arrays and plain numbers
// cross here, never single events.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "record/frames.h"
#include "record/session.h"
#include "replay/replayer.h"
#include "store/format.h"
#include "store/scan.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

void bind_format(nb::module_& m) { m.attr("FORMAT_VERSION") = frametap::format::kFormatVersion; }

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
  m.def(
      "give_recursion_room", [](int n_frames) { give_recursion_room(PyThreadState_Get(), n_frames); }, "n_frames"_a,
      "Let this thread recurse by so many frames more, as if those that run now were not there.");
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

// ---- replay -----------------------------------------------------------------------------------

template <class T>
using ArrayIn = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The column's own memory, freed when the array dies.
template <class T>
nb::object hand_out(frametap::replay::Column<T>& column, size_t n_rows) {
  T* data = column.release();
  nb::capsule owner(data, [](void* p) noexcept { std::free(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {n_rows}, owner));
}

template <class T>
std::span<const T> view(const ArrayIn<T>& array) {
  return {array.data(), array.shape(0)};
}

void bind_replay(nb::module_& m) {
  using frametap::replay::Calls;
  using frametap::replay::ClockMap;
  using frametap::replay::Replayer;
  m.attr("SITE_KNOWN") = static_cast<int>(frametap::replay::kSiteKnown);
  m.attr("SITE_C") = static_cast<int>(frametap::replay::kSiteC);
  m.attr("SITE_HIDDEN") = static_cast<int>(frametap::replay::kSiteHidden);

  nb::class_<Replayer>(m, "Replayer", "Events of one thread -> its spans, as columns. Not for two threads at once.")
      .def(
          "__init__",
          [](Replayer* self, ArrayIn<uint8_t> site_classes, ArrayIn<uint64_t> clock_ticks, ArrayIn<int64_t> clock_ns,
             double ns_per_tick) {
            auto classes = view(site_classes);
            new (self)
                Replayer({classes.begin(), classes.end()}, ClockMap(view(clock_ticks), view(clock_ns), ns_per_tick));
          },
          nb::arg("site_classes"), nb::arg("clock_ticks"), nb::arg("clock_ns"), nb::arg("ns_per_tick"),
          "site_classes: SITE_* bits by site id. clock_ticks, clock_ns: knots of the clock, sorted; "
          "ns_per_tick holds after the last.")
      .def(
          "feed",
          [](Replayer& self, ArrayIn<uint64_t> words, uint64_t segment_tick) {
            if (self.finished()) throw nb::value_error("the replayer is finished: it takes no more segments");
            nb::gil_scoped_release release;
            self.feed(words.data(), words.shape(0), segment_tick);
          },
          nb::arg("words"), nb::arg("segment_tick"), "One whole segment, in sequence order.")
      .def(
          "missing",
          [](Replayer& self, uint64_t tick) {
            if (self.finished()) throw nb::value_error("the replayer is finished: it takes no more segments");
            self.missing(tick);
          },
          nb::arg("tick"), "Segments are missing before the one that begins at this tick.")
      .def("finish", &Replayer::finish, nb::call_guard<nb::gil_scoped_release>(),
           "Close what is still open at the last tick seen.")
      .def(
          "tracks",
          [](Replayer& self) {
            self.finish();
            nb::list out;
            for (auto& track : self.tracks()) {
              Calls& calls = track.calls;
              size_t n = std::exchange(calls.n_rows, 0);
              nb::dict columns;
              columns["site"] = hand_out(calls.site, n);
              columns["start_ns"] = hand_out(calls.start_ns, n);
              columns["duration_ns"] = hand_out(calls.duration_ns, n);
              columns["self_ns"] = hand_out(calls.self_ns, n);
              columns["parent"] = hand_out(calls.parent, n);
              columns["depth"] = hand_out(calls.depth, n);
              columns["outcome"] = hand_out(calls.outcome, n);
              columns["flags"] = hand_out(calls.flags, n);
              out.append(nb::make_tuple(track.stack, columns));
            }
            self.tracks().clear();
            return out;
          },
          "Finish, and hand over [(stack id, {column: array})], in order of first appearance. Once.")
      .def(
          "resumes",
          [](Replayer& self) {
            nb::dict out;
            out["address"] = column(std::move(self.resumes().address));
            out["is_first"] = column(std::move(self.resumes().is_first));
            out["time_ns"] = column(std::move(self.resumes().time_ns));
            out["site"] = column(std::move(self.resumes().site));
            out["track"] = column(std::move(self.resumes().track));
            out["row"] = column(std::move(self.resumes().row));
            return out;
          },
          "Hand over address, is_first, time_ns, site, track (index into tracks()) and row of each resume, in "
          "order. Once.")
      .def(
          "marks",
          [](Replayer& self) {
            nb::dict out;
            out["kind"] = column(std::move(self.marks().kind));
            out["track"] = column(std::move(self.marks().track));
            out["time_ns"] = column(std::move(self.marks().time_ns));
            out["name"] = column(std::move(self.marks().name));
            out["value"] = column(std::move(self.marks().value));
            return out;
          },
          "Hand over the marks, in order: kind 0 span begin, 1 span end, 2 instant, 3 counter. Once.")
      .def(
          "losses",
          [](const Replayer& self) {
            nb::dict out;
            for (int slot = 0; slot < frametap::replay::kLossSlots; ++slot) {
              const auto& loss = self.losses()[slot];
              if (loss.count) out[nb::int_(slot)] = nb::make_tuple(loss.count, loss.first_ns, loss.last_ns);
            }
            return out;
          },
          "{slot: (count, first_ns, last_ns)}; names of slots: frametap.table.losses.")
      .def_prop_ro("first_ns", &Replayer::first_ns, "Time of the first segment; -1 if nothing was fed.")
      .def_prop_ro("last_ns", &Replayer::last_ns, "Time of the last event.");
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "frametap's core: recording and replay.";
  bind_format(m);
  bind_record(m);
  bind_store(m);
  bind_replay(m);
}
