import LanyardFoundations

/// The value of a field for the upstream that a file holds (`set_headers`), as one shard has it.
///
/// All routes that name the file share it, also with a configuration that a reload has replaced. Belongs to the shard's queue, which the
/// shard checks.
final class FieldValue: @unchecked Sendable {
    /// nil: the file cannot be used, and requests of its routes are refused.
    private(set) var secret: Secret?

    /// - Parameter secret: as the file was read before a shard has it.
    init(_ secret: Secret?) { self.secret = secret }

    func replace(_ secret: Secret?) { self.secret = secret }
}
