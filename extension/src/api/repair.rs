//! Puts right what deviates.
