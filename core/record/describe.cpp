#include "record/describe.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "record/sites.h"

namespace frametap {

void append_json_string(std::string& out, PyObject* text) {
  out += '"';
  if (text && PyUnicode_Check(text)) {
    Py_ssize_t n = PyUnicode_GET_LENGTH(text);
    int kind = PyUnicode_KIND(text);
    const void* data = PyUnicode_DATA(text);
    char escape[16];
    for (Py_ssize_t i = 0; i < n; i++) {
      Py_UCS4 c = PyUnicode_READ(kind, data, i);
      if (c == '"' || c == '\\') {
        out += '\\';
        out += char(c);
      } else if (c >= 0x20 && c < 0x7f) {
        out += char(c);
      } else if (c < 0x10000) {
        snprintf(escape, sizeof escape, "\\u%04x", unsigned(c));
        out += escape;
      } else {
        snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                 0xdc00 + ((c - 0x10000) & 0x3ff));
        out += escape;
      }
    }
  }
  out += '"';
}

namespace {

void append_json_string(std::string& out, const char* text) {
  PyObject* s = PyUnicode_DecodeUTF8(text, Py_ssize_t(strlen(text)), "replace");
  if (!s) PyErr_Clear();
  frametap::append_json_string(out, s);
  Py_XDECREF(s);
}

// A string attribute that reading cannot run the program's code for: in the instance's dict, or
// computed by a slot of a C type. Borrowed-safe: returns a new reference or null.
PyObject* plain_attribute(PyObject* object, const char* name) {
  if (Py_TYPE(object)->tp_getattro != PyObject_GenericGetAttr && !PyType_Check(object)) return nullptr;
  PyObject* key = PyUnicode_InternFromString(name);
  if (!key) {
    PyErr_Clear();
    return nullptr;
  }
  PyObject* result = nullptr;
  if (PyObject* in_type = _PyType_Lookup(Py_TYPE(object), key)) {
    PyTypeObject* t = Py_TYPE(in_type);
    if (t == &PyGetSetDescr_Type || t == &PyMemberDescr_Type) {
      result = PyObject_GenericGetAttr(object, key);
    } else if (PyUnicode_CheckExact(in_type)) {
      result = Py_NewRef(in_type);
    }
  } else if (PyObject** dict = _PyObject_GetDictPtr(object)) {
    if (*dict) result = Py_XNewRef(PyDict_GetItemWithError(*dict, key));
  }
  PyErr_Clear();
  Py_DECREF(key);
  if (result && !PyUnicode_Check(result)) Py_CLEAR(result);
  return result;
}

// `module.Qualname` of a type, without asking its metaclass.
void type_names(PyTypeObject* type, PyObject** qualname, PyObject** module) {
  *qualname = *module = nullptr;
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    *qualname = Py_XNewRef(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
    PyObject* dict = type->tp_dict;
    PyObject* m = dict ? PyDict_GetItemString(dict, "__module__") : nullptr;
    if (m && PyUnicode_Check(m)) *module = Py_NewRef(m);
  } else {
    const char* dot = strrchr(type->tp_name, '.');
    *qualname = PyUnicode_FromString(dot ? dot + 1 : type->tp_name);
    *module = dot ? PyUnicode_FromStringAndSize(type->tp_name, dot - type->tp_name) : PyUnicode_FromString("builtins");
  }
  PyErr_Clear();
}

PyObject* joined(PyObject* a, const char* dot, PyObject* b) {
  PyObject* s = PyUnicode_FromFormat("%U%s%U", a, dot, b);
  if (!s) PyErr_Clear();
  return s;
}

// The class that defines a method: a subclass's bound `append` is still `list.append`.
PyTypeObject* defining_class(PyTypeObject* type, PyMethodDef* method) {
  PyObject* mro = type->tp_mro;
  if (!mro || !PyTuple_Check(mro)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); i++) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    for (PyMethodDef* m = base->tp_methods; m && m->ml_name; m++)
      if (m == method) return base;
    // C types made from a spec keep their methods only as descriptors.
    PyObject* d = base->tp_dict ? PyDict_GetItemString(base->tp_dict, method->ml_name) : nullptr;
    if (d && (Py_IS_TYPE(d, &PyMethodDescr_Type) || Py_IS_TYPE(d, &PyClassMethodDescr_Type)) &&
        reinterpret_cast<PyMethodDescrObject*>(d)->d_method == method)
      return base;
  }
  return nullptr;
}

// New references, either may stay null.
void c_names(PyObject* callable, PyObject** qualname, PyObject** module) {
  *qualname = *module = nullptr;
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  PyTypeObject* type = Py_TYPE(callable);
  if (PyCFunction_Check(callable)) {
    auto* f = reinterpret_cast<PyCFunctionObject*>(callable);
    PyObject* self = f->m_self;
    PyTypeObject* owner = nullptr;
    if (self && !PyModule_Check(self)) {
      if (PyType_Check(self)) owner = defining_class(reinterpret_cast<PyTypeObject*>(self), f->m_ml);
      if (!owner) owner = defining_class(Py_TYPE(self), f->m_ml);
    }
    PyObject* name = PyUnicode_FromString(f->m_ml->ml_name);
    if (owner) {
      PyObject* owner_name;
      type_names(owner, &owner_name, module);
      if (owner_name && name) *qualname = joined(owner_name, ".", name);
      Py_XDECREF(owner_name);
      Py_XDECREF(name);
    } else {
      *qualname = name;
      if (f->m_module && PyUnicode_Check(f->m_module)) *module = Py_NewRef(f->m_module);
    }
  } else if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type) {
    auto* d = reinterpret_cast<PyDescrObject*>(callable);
    PyObject* owner_name;
    type_names(d->d_type, &owner_name, module);
    if (owner_name && d->d_name) *qualname = joined(owner_name, ".", d->d_name);
    Py_XDECREF(owner_name);
  } else if (PyType_Check(callable)) {
    type_names(reinterpret_cast<PyTypeObject*>(callable), qualname, module);
  } else {
    *qualname = plain_attribute(callable, "__qualname__");
    if (!*qualname) *qualname = plain_attribute(callable, "__name__");
    if (*qualname) {
      *module = plain_attribute(callable, "__module__");
      if (!*module) {
        PyObject* unused;
        type_names(type, &unused, module);
        Py_XDECREF(unused);
      }
    } else {
      PyObject* type_name;
      type_names(type, &type_name, module);
      PyObject* call = PyUnicode_FromString("__call__");
      if (type_name && call) *qualname = joined(type_name, ".", call);
      Py_XDECREF(type_name);
      Py_XDECREF(call);
    }
  }
  PyErr_Clear();
}

}  // namespace

bool path_in_folder(PyObject* path, const std::string& folder) {
  if (!path || !PyUnicode_Check(path) || folder.empty()) return false;
  Py_ssize_t n = PyUnicode_GET_LENGTH(path);
  if (n <= Py_ssize_t(folder.size())) return false;
  for (size_t i = 0; i < folder.size(); i++)
    if (PyUnicode_READ_CHAR(path, Py_ssize_t(i)) != Py_UCS4(static_cast<unsigned char>(folder[i]))) return false;
  return true;
}

void describe_python_function(std::string& out, uint32_t id, PyCodeObject* code, const Frame* frame, bool internal) {
  PyObject* module = nullptr;
  if (frame && frame->f_globals && PyDict_Check(frame->f_globals))
    module = PyDict_GetItemString(frame->f_globals, "__name__");
  char text[64];
  snprintf(text, sizeof text, "[\"function\",%u,\"python\",", id);
  out += text;
  append_json_string(out, code->co_qualname);
  out += ',';
  append_json_string(out, module);
  out += ',';
  append_json_string(out, code->co_filename);
  snprintf(text, sizeof text, ",%d,%d]\n", code->co_firstlineno, internal ? 1 : 0);
  out += text;
}

void describe_c_function(std::string& out, uint32_t id, PyObject* callable, PyObject*) {
  PyObject *qualname, *module;
  c_names(callable, &qualname, &module);
  char text[64];
  snprintf(text, sizeof text, "[\"function\",%u,\"c\",", id);
  out += text;
  if (qualname)
    append_json_string(out, qualname);
  else
    append_json_string(out, Py_TYPE(callable)->tp_name);
  out += ',';
  append_json_string(out, module);
  out += ",\"\",-1,0]\n";
  Py_XDECREF(qualname);
  Py_XDECREF(module);
}

namespace {
// What all classes written in Python have as tp_dealloc, and no C type has.
destructor g_python_class_dealloc = nullptr;
}  // namespace

bool is_python_callable(PyObject* callable) {
  PyTypeObject* t = Py_TYPE(callable);
  if (t == &PyFunction_Type) return true;
  return t == &PyMethod_Type && Py_IS_TYPE(PyMethod_GET_FUNCTION(callable), &PyFunction_Type);
}

uintptr_t c_callable_key(PyObject* callable) {
  PyTypeObject* t = Py_TYPE(callable);
  if (t == &PyCFunction_Type || t == &PyCMethod_Type)
    return uintptr_t(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml);
  if (t == &PyMethodDescr_Type || t == &PyClassMethodDescr_Type)
    return uintptr_t(reinterpret_cast<PyMethodDescrObject*>(callable)->d_method);
  if (t == &PyWrapperDescr_Type) return uintptr_t(reinterpret_cast<PyWrapperDescrObject*>(callable)->d_base);
  if (PyType_Check(callable)) return uintptr_t(callable);
  if (t == &PyMethod_Type) return c_callable_key(PyMethod_GET_FUNCTION(callable));
  // Functions of another make (ufuncs, lru_cache wrappers, Cython's) are told apart; their death can be
  // watched. Instances of Python classes, and what cannot be watched, share their type.
  if (t->tp_weaklistoffset > 0 && t->tp_dealloc != g_python_class_dealloc) return uintptr_t(callable);
  return uintptr_t(t);
}

bool set_up_descriptions() {
  if (g_python_class_dealloc) return true;
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "_frozen_importlib");
  PyObject* type = module ? PyObject_GetAttrString(module, "ModuleSpec") : nullptr;
  if (!type || !PyType_Check(type)) return false;
  g_python_class_dealloc = reinterpret_cast<PyTypeObject*>(type)->tp_dealloc;
  Py_DECREF(type);
  return true;
}

namespace {

PyObject* on_death(PyObject* key, PyObject* reference) {
  void* address = PyCapsule_GetPointer(key, nullptr);
  if (address) g_sites.forget_c(uintptr_t(address));
  PyErr_Clear();
  Py_DECREF(reference);  // watch_c_callable's
  Py_RETURN_NONE;
}
PyMethodDef on_death_method = {"frametap_forget", on_death, METH_O, nullptr};

}  // namespace

void watch_c_callable(uintptr_t key, PyObject* callable) {
  PyTypeObject* t = Py_TYPE(callable);
  PyObject* target = nullptr;
  if (t == &PyCFunction_Type || t == &PyCMethod_Type) {
    // A method's definition lives as long as its class; that of a free function may be its own.
    auto* f = reinterpret_cast<PyCFunctionObject*>(callable);
    PyObject* self = f->m_self;
    bool method = self && !PyModule_Check(self) &&
                  (defining_class(Py_TYPE(self), f->m_ml) ||
                   (PyType_Check(self) && defining_class(reinterpret_cast<PyTypeObject*>(self), f->m_ml)));
    if (!method) target = callable;
  } else if (uintptr_t(callable) == key) {
    if (!PyType_Check(callable) || (reinterpret_cast<PyTypeObject*>(callable)->tp_flags & Py_TPFLAGS_HEAPTYPE))
      target = callable;
  } else if (uintptr_t(t) == key && (t->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    target = reinterpret_cast<PyObject*>(t);
  }
  if (!target) return;
  PyObject* capsule = PyCapsule_New(reinterpret_cast<void*>(key), nullptr, nullptr);
  PyObject* callback = capsule ? PyCFunction_New(&on_death_method, capsule) : nullptr;
  // The reference must live until the target dies: on_death drops it.
  if (callback) PyWeakref_NewRef(target, callback);
  Py_XDECREF(callback);
  Py_XDECREF(capsule);
  PyErr_Clear();
}

// ---- threads' names ---------------------------------------------------------------------------

namespace {

std::string as_json(PyObject* s) {
  std::string out;
  frametap::append_json_string(out, s);
  return out;
}

PyObject* thread_object(PyThreadState* ts, Frame* entering) {  // borrowed
  Frame* root = entering;
  for (Frame* f = top_frame(ts); f; f = f->previous)
    if (!is_sentinel(f)) root = f;
  // The first frame of a thread that threading starts is Thread._bootstrap(self).
  if (root && (root == entering || !is_incomplete(root))) {
    PyCodeObject* code = frame_code(root);
    if (code->co_argcount > 0 && PyUnicode_CompareWithASCIIString(code->co_name, "_bootstrap") == 0) {
      if (PyObject* self = first_local(root)) return self;
    }
  }
  PyObject* threading = PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
  if (!threading || !PyModule_Check(threading)) return nullptr;
  PyObject* active = PyDict_GetItemString(PyModule_GetDict(threading), "_active");
  if (!active || !PyDict_Check(active)) return nullptr;
  PyObject* ident = PyLong_FromUnsignedLong(ts->thread_id);
  if (!ident) return nullptr;
  PyObject* found = PyDict_GetItemWithError(active, ident);
  Py_DECREF(ident);
  return found;
}

std::string name_of(PyObject* thread) {
  PyObject* name = nullptr;
  if (PyObject* key = PyUnicode_InternFromString("_name")) {
    PyObject* in_type = _PyType_Lookup(Py_TYPE(thread), key);
    if (!in_type && Py_TYPE(thread)->tp_getattro == PyObject_GenericGetAttr)
      name = PyObject_GenericGetAttr(thread, key);
    Py_DECREF(key);
  }
  PyErr_Clear();
  std::string out = name && PyUnicode_Check(name) ? as_json(name) : "";
  Py_XDECREF(name);
  return out;
}

}  // namespace

std::string thread_name(PyThreadState* ts, Frame* entering, PyObject** weak_thread) {
  *weak_thread = nullptr;
  std::string name;
  PyObject* thread = thread_object(ts, entering);
  PyErr_Clear();
  if (thread) {
    Py_INCREF(thread);
    name = name_of(thread);
    if (!name.empty()) *weak_thread = PyWeakref_NewRef(thread, nullptr);
    Py_DECREF(thread);
    PyErr_Clear();
  }
  // The main thread is one of threading's only once that is imported.
  if (name.empty() && ts->native_thread_id == uint64_t(getpid())) return "\"MainThread\"";
  if (name.empty()) {
    char text[64] = "";
    if (ts->thread_id == static_cast<unsigned long>(pthread_self()))
      pthread_getname_np(pthread_self(), text, sizeof text);
    PyObject* s = PyUnicode_DecodeUTF8(text, Py_ssize_t(strlen(text)), "replace");
    name = s ? as_json(s) : "\"\"";
    Py_XDECREF(s);
    PyErr_Clear();
  }
  return name;
}

std::string thread_name_again(PyObject* weak_thread) {
  if (!weak_thread) return "";
#if PY_VERSION_HEX >= 0x030d0000
  PyObject* thread = nullptr;
  if (PyWeakref_GetRef(weak_thread, &thread) < 0) PyErr_Clear();
#else
  PyObject* thread = Py_XNewRef(PyWeakref_GET_OBJECT(weak_thread));
  if (thread == Py_None) Py_CLEAR(thread);
#endif
  if (!thread) return "";
  std::string name = name_of(thread);
  Py_DECREF(thread);
  return name;
}

}  // namespace frametap
