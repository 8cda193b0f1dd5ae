"""Scripts that maintain this repository; not part of any distribution."""
