// A CUDA device that has no memory and runs nothing, for PyTorch's CPU build: with it autograd, autocast and the CUDA dispatch
// of FakeTensorMode work as in a CUDA build. Loaded into the process before torch is imported (oracle_step.py).
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {
using namespace c10;

struct Guard final : public impl::DeviceGuardImplInterface {
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device) const override { return getDevice(); }
  Device getDevice() const override { return Device(DeviceType::CUDA, 0); }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device d) const override { return Stream(Stream::DEFAULT, d); }
  Stream getNewStream(Device d, int) const override { return getStream(d); }
  Stream getDefaultStream(Device d) const override { return getStream(d); }
  Stream getStreamFromGlobalPool(Device d, bool) const override { return getStream(d); }
  Stream exchangeStream(Stream s) const override { return s; }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  bool queryEvent(void*) const override { return true; }
  void record(void**, const Stream&, const DeviceIndex, const EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryStream(const Stream&) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
  void synchronizeStream(const Stream&) const override {}
  void synchronizeEvent(void*) const override {}
};
} // namespace

using at::CUDAHooksArgs;
using at::CUDAHooksRegistry;
using at::RegistererCUDAHooksRegistry;

// The registry looks the hooks up by this very name.
struct CUDAHooks final : public at::CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  int getNumGPUs() const override { return 1; }
};
REGISTER_CUDA_HOOKS(CUDAHooks);

namespace {
Guard guard;
const bool registered = [] {
  c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)].store(&guard);
  return true;
}();
} // namespace
