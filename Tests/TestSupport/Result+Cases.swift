extension Result {
    /// The value; nil: it is a failure.
    package var success: Success? { try? get() }

    /// The error; nil: it is a success.
    package var failure: Failure? { if case .failure(let failure) = self { failure } else { nil } }
}
