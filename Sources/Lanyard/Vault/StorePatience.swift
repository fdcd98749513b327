/// How long the sealed file's lock is asked for (architecture.md 4.9). Others hold it for a read and a write.
enum StoreLockRetry {
    static let limit = Duration.seconds(10)

    /// Until it is asked again: at random, so that two that wait do not meet for ever.
    static var delay: Duration { .milliseconds(Int64.random(in: 20...200)) }
}
