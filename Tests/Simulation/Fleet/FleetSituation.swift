/// What happens to accounts and credentials in a simulated world, each counted by the report: a run that never had one
/// says nothing about it.
package enum FleetSituation: Int, CaseIterable, Sendable {
    // Credentials for one login.
    case spentHeldBack, refusedHeldBack, fileChangedDuringLogin, newCredentialTaken
    // Links.
    case linked, linkDuringRefresh, linkRenewed, linkRefused, linkUnanswered, linkOvertaken, linkCutOff
    // Deletions.
    case accountDeleted, deletionDuringRefresh, deletionRefused, deletionUnanswered
    /// The process died, and the service has not deleted the account then.
    case deletionCutOffBefore
    case deletionCutOffAfter
    // Variants.
    case variantFetched, variantRestored, variantAdopted, variantRefreshForced, variantRetriedByOperator
    /// A request waited for a variant that was not renewed because none had used it.
    case variantFetchedOnDemand
    /// No request had used it.
    case variantNotRenewed
    /// A fetch has brought a new refresh token.
    case rotationByFetch
    case fetchUnanswered, fetchLostRotation, fetchKilledFamily, fetchRepeatedInGrace, fetchFoundSessionDead
    case fetchOvertakenByLogout
    case wrongAudienceRefused, opaqueVariantServed, variantRefused
    case variantAdded, variantRemoved
    /// By a login, because the session has no refresh token.
    case variantFetchedByLogin
    // Ends of processes.
    case drained, drainedDuringFetch
    // Calls that are prepared before their intent is stored.
    case preparedAndSent, preparedInVain, preparationGivenUp, preparationCutOff

    /// As a reader of the report knows it.
    package var name: String {
        "\(self)".reduce(into: "") { $0 += $1.isUppercase ? " \($1.lowercased())" : "\($1)" }
    }
}
