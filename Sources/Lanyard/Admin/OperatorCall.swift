/// A request that is to be carried out once its body is there.
struct OperatorCall {
    /// 413 beyond.
    let bodyBytesMax: Int
    /// A whole body, from the end of its head.
    let bodyTimeout: Duration
    /// Begins to carry it out, on the loop's queue; the body is lent for the length of the call. What is replied, once and on whatever queue,
    /// is the answer.
    let perform: (_ body: UnsafeRawBufferPointer, _ reply: @escaping @Sendable (OperatorResponse) -> Void) -> Void
}
