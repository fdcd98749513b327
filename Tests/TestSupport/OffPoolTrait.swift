import Testing

/// Runs each test of a suite on a thread of its own, and not on the cooperative pool.
///
/// For tests that compute for seconds without a suspension point. Two of them on a pool of two threads stop every other test, and under a
/// sanitizer for a minute: what those measure is then late.
package struct OffPoolTrait: SuiteTrait, TestTrait, TestScoping {
    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil else { return try await function() }
        try await TestSupport.offPool(suspending: function)
    }
}

extension Trait where Self == OffPoolTrait {
    /// The suite's tests compute for long.
    package static var offPool: Self { OffPoolTrait() }
}
