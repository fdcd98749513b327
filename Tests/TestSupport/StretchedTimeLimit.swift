import Testing

extension Trait where Self == TimeLimitTrait {
    /// How long a test may take; `Sanitizer.stretch` times as long under a sanitizer.
    package static func timeLimit(minutes: Int) -> Self { .timeLimit(.minutes(minutes * Sanitizer.stretch)) }
}
