/// An owner of descriptors that it can spare, such as those of idle connections.
package protocol DescriptorHolder: AnyObject, Sendable {
    /// Closes the descriptors that it can spare and calls `done` with their number. On any thread, never blocking. `done` is called once,
    /// perhaps on another thread.
    func releaseDescriptors(then done: @escaping @Sendable (_ count: Int) -> Void)
}
