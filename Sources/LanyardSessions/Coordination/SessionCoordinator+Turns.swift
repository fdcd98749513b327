import LanyardSessionInterface

extension SessionCoordinator {
    /// The operation did not get its turn (refresh.md 18). It has asked nothing of the store.
    mutating func handleTurnMissed() {
        lock = .free
        continueDeletion(.busy)
        guard let operation, operation.isAwaitingLock else { return releaseLock() }
        handleFailure(
            IdentityError(
                .transient(retryAfter: nil), message: "the identity service responds to no call of its other users"))
    }
}
