/// How long a process retries to take the sealed file's lock (architecture.md 4.9). Other processes hold it for one read and one write.
enum StoreLockRetry {
    static let limit = Duration.seconds(10)

    /// The delay before the next attempt: random, so that two waiting processes do not collide repeatedly.
    static var delay: Duration { .milliseconds(Int64.random(in: 20...200)) }
}
