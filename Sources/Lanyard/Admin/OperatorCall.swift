/// An operation that runs when the request's body is complete.
struct OperatorCall {
    /// Bytes of the body; 413 beyond.
    let bodyBytesMax: Int
    /// From the end of the head to the end of the body.
    let bodyTimeout: Duration
    /// Starts the operation, on the loop's queue. The body is valid during this call only.
    ///
    /// `reply` takes the response. It is called exactly once, on any queue.
    let perform: (_ body: UnsafeRawBufferPointer, _ reply: @escaping @Sendable (OperatorResponse) -> Void) -> Void
}
