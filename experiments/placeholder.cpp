namespace copylab {}
