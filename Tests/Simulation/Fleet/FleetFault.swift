/// What can go wrong in a simulated world, each counted by the report.
package enum FleetFault: Int, CaseIterable, Sendable {
    // The way to the identity service and back.
    case connectionRefused, connectTimedOut, requestLost, responseLost, responseLostAfterRotation, slowResponse
    case carriedOutAfterTimeout
    // What the service says.
    case serverError, tooManyRequests, retryAfter, gone, unknownApp, htmlInstead, malformedSuccess,
        malformedAfterRotation, errorInSuccess, errorInSuccessAfterRotation
    case shortLifetime, wrongLifetime, doubtfulRefusal, wrongDate
    // What becomes of sessions and accounts over there.
    case sessionRevoked, refreshTokenExpired, userDisabled, userEnabled, passwordChanged, familyKilled
    // What operators do.
    case credentialMended, loggedOut, loggedIn, upstreamRefused
    // What happens to the machine and its clocks.
    case processKilled, powerLost, wallForwards, wallBackwards, suspended, paused
    // What the disk does.
    case diskFull, writeShort, writeTorn, synchronizationFailed, diskReadOnly, renameUndone
    // Locks.
    case storeBusy, userBusy, lockFailed

    /// As a reader of the report knows it.
    package var name: String {
        "\(self)".reduce(into: "") { $0 += $1.isUppercase ? " \($1.lowercased())" : "\($1)" }
    }
}
