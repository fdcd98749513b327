/// Who holds descriptors that it can do without, such as those of idle connections.
package protocol DescriptorHolder: AnyObject, Sendable {
    /// Closes what it can do without, and calls `done` with the number of descriptors that are free again. On any thread, never blocking;
    /// `done` comes once, perhaps on another thread.
    func releaseDescriptors(then done: @escaping @Sendable (_ count: Int) -> Void)
}
